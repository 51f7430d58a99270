"""From files, environment and flags to a configuration: defaults < file < environment < flags.

A mistake anywhere is a UserError of one line that names the key and, for an unknown one, the key probably meant.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import tyro
from pydantic import BaseModel, ValidationError
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from swarm_node.common import plugins, renamed
from swarm_node.common.errors import UserError
from swarm_node.settings.sections import PlugIn

PREFIX = "SWARM_NODE_"  # SWARM_NODE_TRAINING__LEARNING_RATE=1e-4 sets training.learning_rate
C = TypeVar("C", bound=BaseModel)
FLAGS = ConstructorRegistry()


def from_command_line(kind: type[C], argv: Sequence[str], program: str, flags_only: bool = False) -> C:
    """A configuration from `[FILE.toml] [--flags]`. Exits with a page of all options on --help, as tyro does."""
    file = None if flags_only else file_in(argv)
    arguments = _gathered([*_present(argv[1:] if file else argv)])
    base = resolve(kind, file, os.environ)
    config = tyro.cli(kind, default=base, args=arguments, prog=program, description=kind.__doc__, registry=FLAGS)
    return _with_plug_ins(located(config, file.expanduser().parent if file else Path()), _known)


def file_in(argv: Sequence[str]) -> Path | None:
    """The configuration file: the first argument, where that is no flag."""
    return Path(argv[0]) if argv and not argv[0].startswith("-") else None


@FLAGS.primitive_rule
def _list(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Lists go as text to the configuration, which splits them and knows the types of their entries."""
    if info.type_origin is not tuple:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="LIST",
        instance_from_str=tuple,
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: [str(each) for each in value],
    )


def _gathered(argv: Sequence[str], option: str = "--peers") -> list[str]:
    """`--peers A --seed 1 --peers=B C` as `--seed 1 --peers A B C`: of a list given twice tyro keeps the last, and with
    UseAppendAction it takes one entry at a time and adds to those of the file."""
    rest: list[str] = []
    gathered: list[str] = []
    taking = False
    for argument in argv:
        name, _, value = argument.partition("=")
        if name == option:
            taking = True
            gathered += [value] if value else []
        elif taking and not argument.startswith("-"):
            gathered.append(argument)
        else:
            taking = False
            rest.append(argument)
    return [*rest, option, *gathered] if gathered else rest


def resolve(kind: type[C], file: Path | None, environment: Mapping[str, str]) -> C:
    """Defaults, then the file, then environment variables."""
    values = read_file(file) if file else {}
    _merge(values, environment_values(kind, environment))
    values = _nested(renamed.options(flatten(values)))
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        where = f"{file}: " if file else ""
        raise UserError(where + "; ".join(_explain(kind, problem) for problem in error.errors())) from error


def read_file(file: Path) -> dict[str, Any]:
    """A TOML file. UserError where it is missing, or no TOML."""
    try:
        return tomllib.loads(file.expanduser().read_text())
    except FileNotFoundError as error:
        raise UserError(f"config file {file} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"config file {file} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"config file {file} is not TOML: {error}") from error


def environment_values(kind: type[BaseModel], environment: Mapping[str, str]) -> dict[str, Any]:
    """Nested values of the variables that carry our prefix and name a key of `kind`; others belong to somebody else."""
    values: dict[str, Any] = {}
    for name, text in environment.items():
        path = name.removeprefix(PREFIX).lower().split("__")
        if not name.startswith(PREFIX) or path[0] not in kind.model_fields:
            continue
        inner = values
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = _parse(text)
    return values


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def describe(kind: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """The explanation of every key, "a.b" -> its docstring."""
    texts: dict[str, str] = {}
    for name, field in kind.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            texts.update(describe(field.annotation, f"{prefix}{name}."))
        else:
            texts[f"{prefix}{name}"] = field.description or ""
    return texts


def located(config: C, folder: Path) -> C:
    """With the whole path of every plug-in that is a file in `folder`, that of the configuration."""
    return _with_plug_ins(config, lambda name, _: plugins.located(name, folder))


def plug_in_files(config: BaseModel) -> list[str]:
    """The plug-ins of this configuration that are files beside it."""
    named: list[str] = []

    def note(name: str, _: PlugIn) -> str:
        named.append(name)
        return name

    _with_plug_ins(config, note)
    return [name for name in named if ".py:" in name]


def _known(name: str, mark: PlugIn) -> str:
    """UserError for a name that nobody has registered: before anything is started for it."""
    if name not in mark.besides:
        plugins.target(mark.kind, name)
    return name


def _with_plug_ins(config: C, change: Callable[[str, PlugIn], str]) -> C:
    """The configuration with every name of a plug-in, at any depth, changed."""
    changes: dict[str, Any] = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        marks = [each for each in (*field.metadata, *_inner_marks(field.annotation)) if isinstance(each, PlugIn)]
        if isinstance(value, BaseModel):
            changes[name] = _with_plug_ins(value, change)
        elif marks:
            (mark,) = marks
            changes[name] = (
                tuple(change(each, mark) for each in value) if isinstance(value, tuple) else change(value, mark)
            )
    return config.model_copy(update={name: value for name, value in changes.items() if value != getattr(config, name)})


def _inner_marks(annotation: Any) -> Iterator[Any]:
    """Of the entries of tuple[Annotated[str, ...], ...]."""
    for inner in get_args(annotation):
        yield from getattr(inner, "__metadata__", ())


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `flatten`."""
    values: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = values
        for key in path:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return values


def _present(argv: Sequence[str]) -> Iterator[str]:
    """Flags with the present names of options, and of their values."""
    name = ""
    for argument in argv:
        if not argument.startswith("--"):
            yield renamed.VALUES.get((name, argument), argument)
            continue
        flag, equals, value = argument[2:].partition("=")
        section, dot, last = flag.replace("-", "_").rpartition(".")
        no = "no_" if last.startswith("no_") else ""
        name = renamed.option(section + dot + last.removeprefix(no))
        section, dot, last = name.rpartition(".")
        value = renamed.VALUES.get((name, value), value)
        yield f"--{section}{dot}{no}{last}".replace("_", "-") + equals + value


def _parse(text: str) -> Any:
    """JSON where it is JSON (numbers, lists, booleans), else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _merge(values: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = value


def _explain(kind: type[BaseModel], problem: Any) -> str:
    path = [str(part) for part in problem["loc"]]
    name = ".".join(path)
    if problem["type"] != "extra_forbidden":
        return f"{name}: {problem['msg']}, got {problem['input']!r}"
    close = difflib.get_close_matches(name, describe(kind), n=1, cutoff=0.5)
    last = [key for key in describe(kind) if key.rsplit(".", 1)[-1] == path[-1]]  # right name, wrong section
    meant = (last or close or [""])[0]
    return f"unknown key {name!r}" + (f"; did you mean {meant!r}?" if meant else "; see `swarm-node run --help-all`")
