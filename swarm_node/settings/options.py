"""What options are made of: keys, flags and explanations, the page that lists them, the plug-ins that some of them
name, and what a wrong one is called, in one line.
"""

import difflib
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from swarm_node.common import plugins
from swarm_node.common.errors import printable
from swarm_node.settings.sections import Alias, Alone, PlugIn

CLOSE, NEARLY = 0.7, 0.8  # of difflib, from 0 to 1
SHOWN = 60  # characters of a wrong value
WIDTH = 80  # characters of a terminal
WORDS = {int: "INT", float: "FLOAT", Path: "PATH"}  # of other types: TEXT
C = TypeVar("C", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a configuration."""

    key: str  # as in a file: training.learning_rate
    about: FieldInfo

    @property
    def section(self) -> str:
        return self.key.rpartition(".")[0]

    @property
    def flags(self) -> list[str]:
        """The flag of its place first. A switch has a second form of each: `negated`."""
        aliases = (each for mark in self.about.metadata if isinstance(mark, Alias) for each in mark.aliases)
        return [f"--{self.key}".replace("_", "-"), *aliases]

    @property
    def is_switch(self) -> bool:
        return self.about.annotation is bool

    @property
    def is_list(self) -> bool:
        return get_origin(self.about.annotation) is tuple

    @property
    def alone(self) -> str:
        """Its value where the flag stands alone; "" where the flag needs one."""
        return next((mark.value for mark in self.about.metadata if isinstance(mark, Alone)), "")

    def is_a(self, *kinds: type) -> bool:
        """Whether its value is of one of these types."""
        return isinstance(self.about.annotation, type) and issubclass(self.about.annotation, kinds)


@cache
def options(kind: type[BaseModel], prefix: str = "") -> Mapping[str, Option]:
    """Every option of this configuration by its key, those of its sections included."""
    found: dict[str, Option] = {}
    for name, about in kind.model_fields.items():
        if isinstance(about.annotation, type) and issubclass(about.annotation, BaseModel):
            found |= options(about.annotation, f"{prefix}{name}.")
        else:
            found[prefix + name] = Option(prefix + name, about)
    return found


def describe(kind: type[BaseModel]) -> dict[str, str]:
    """The explanation of every key, "a.b" -> its docstring."""
    return {key: option.about.description or "" for key, option in options(kind).items()}


def negated(flag: str) -> str:
    """Of --network.mdns: --network.no-mdns."""
    section, dot, name = flag.removeprefix("--").rpartition(".")
    return f"--{section}{dot}no-{name}"


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}. An empty section stays, as it may be a name that does not exist."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def help_page(kind: type[BaseModel], program: str) -> str:
    """`--help-all`: every option, its explanation and its default. Those that stand in a section follow the others."""
    sections: dict[str, list[Option]] = {"": []}
    for option in options(kind).values():
        sections.setdefault(option.section, []).append(option)
    parts = [f"usage: {program} [OPTIONS]", "", *textwrap.wrap(" ".join((kind.__doc__ or "").split()), WIDTH)]
    for title, listed in sections.items():
        if listed:
            parts += ["", f"{title} options".strip(), "-" * (WIDTH - 2)]
        for option in listed:
            first, *aliases = option.flags
            named = ", ".join([first, *([negated(first)] if option.is_switch else []), *aliases])
            named += _placeholder(option)
            parts += textwrap.wrap(named, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
            text = f"{option.about.description or ''} (default: {_shown(option.about.default)})"
            parts += textwrap.wrap(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(parts) + "\n"


def _placeholder(option: Option) -> str:
    annotation = option.about.annotation
    if option.is_switch:
        return ""
    if option.is_list:
        return " LIST"
    if get_origin(annotation) is Literal:
        return f" {{{', '.join(map(str, get_args(annotation)))}}}"
    if isinstance(annotation, UnionType):
        annotation = get_args(annotation)[0]
    return f" {WORDS.get(annotation, 'TEXT')}"  # type: ignore[arg-type]  # it is a type here


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return " ".join(map(str, default)) or "none"
    return str(default) if str(default) and default is not None else "none"


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


def check_plug_ins(config: BaseModel) -> None:
    """UserError for a plug-in that nobody has registered, before anything starts."""

    def check(name: str, mark: PlugIn) -> str:
        if name not in mark.besides:
            plugins.target(mark.kind, name)
        return name

    _with_plug_ins(config, check)


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


def meant(name: str, names: Iterable[str]) -> str:
    """The one of `names` that was probably meant, the first of several; "" where none is near.

    An option that moved is meant first: --environment.dataset.file is --dataset.file. Then the right name in the wrong
    section: --learning-rate is --training.learning-rate. Then a section that is spelt nearly so: --modell is
    --model.name.
    """
    names = list(names)
    if moved := next((each for each in names if _moved(name, each)), ""):
        return moved
    endings = {_last(each): each for each in reversed(names)}
    sections = {each.split(".")[0]: each for each in reversed(names) if "." in each}
    for text, among, cutoff in (
        (_last(name), endings, 1.0),
        (_last(name), {each.lstrip("-"): sections[each] for each in sections}, 1.0),
        (name.split(".")[0] if "." not in name else "", sections, NEARLY),
        (name, {each: each for each in names}, CLOSE),
        (_last(name), endings, NEARLY),
    ):
        if found := difflib.get_close_matches(text, among, n=1, cutoff=cutoff):
            return among[found[0]]
    return ""


def wrong(problem: Any, secret: bool = False) -> str:
    """What pydantic found in a value, for a person: what it should be, and, unless it is secret, what it is."""
    said = re.sub(r"^(Input|String|Value error,|Tuple|List) *", "", str(problem["msg"])).removesuffix(".")
    said = re.sub(r"^should be", "must be", said)
    said = re.sub(r"valid dictionary or instance of \w+", "section, with keys of its own", said)
    said = re.sub(r"is not a valid path.*", "must be a path", said)
    said = re.sub(r", unable to parse.*| with a fractional part", "", said)
    if problem["type"] == "missing":
        said = "must have more entries"
    return said if secret else f"{said}, not {printable(repr(problem['input']), SHOWN)}"


def _moved(old: str, new: str) -> bool:
    """Whether `new` says the same in another section: training.loss_type in loss.type."""
    one, other = (re.sub(r"[-.]", "_", name.lstrip("-")) for name in (old, new))
    return one == other or one.endswith(f"_{other}") or ("." in old and other.endswith(f"_{one}"))


def _last(name: str) -> str:
    """Of --network.no-mdns: mdns."""
    return name.lstrip("-").rsplit(".", 1)[-1].removeprefix("no-")
