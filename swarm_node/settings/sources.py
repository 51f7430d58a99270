"""What options are made of: files, names and explanations of options, and the plug-ins that some of them name."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel

from swarm_node.common import plugins, private
from swarm_node.common.errors import UserError, printable
from swarm_node.settings.sections import PlugIn

MAX_FILE_BYTES = 1024 * 1024
C = TypeVar("C", bound=BaseModel)


def read_file(file: Path) -> dict[str, Any]:
    """Reads a TOML file. UserError if it is missing or not TOML."""
    try:
        return tomllib.loads(private.read_plain(file.expanduser(), MAX_FILE_BYTES).decode())
    except FileNotFoundError as error:
        raise UserError(f"config file {file} does not exist") from error
    except OSError as error:
        raise UserError(f"config file {file} cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise UserError(f"config file {file} is not TOML: too many brackets") from error
    except ValueError as error:  # no TOML, no UTF-8, a number of thousands of digits
        text = printable(str(error).partition(";")[0], 120)
        raise UserError(f"config file {file} is not TOML: {text}") from error


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}. An empty section stays, as it may be a name that does not exist."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
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
    """The configuration with the whole path of every plug-in that is a file in `folder`, its own folder."""
    return _with_plug_ins(config, lambda name, _: plugins.located(name, folder))


def plug_in_files(config: BaseModel) -> list[str]:
    """The plug-ins of this configuration that are files beside it."""
    named: list[str] = []

    def note(name: str, _: PlugIn) -> str:
        named.append(name)
        return name

    _with_plug_ins(config, note)
    return [name for name in named if ".py:" in name]


def known_plug_ins(config: C) -> C:
    """The same configuration. UserError for a plug-in that nobody has registered."""
    return _with_plug_ins(config, _known)


def _known(name: str, mark: PlugIn) -> str:
    """UserError for a name that is not registered, before anything starts."""
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
