"""What options are made of: keys, flags and explanations; the page that lists them; and what a
mistake in one is called, in one line.
"""

import difflib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from swarm_node.common.errors import printable
from swarm_node.settings.sections import Alias, Alone, Earlier, Section

# Least similarity by difflib, from 0 to 1: of whole names
SURE, CLOSE, CLOSE_IF_SHORT = 0.85, 0.7, 0.66
NEARLY, ALIKE = 0.8, 0.5  # of parts alone, and of the last parts of close names
SHORT, BEGUN = 3, 4  # letters: of a short name, and of the beginning that two names share
SHOWN = 60  # characters of a wrong value
WIDTH = 80  # characters of a terminal
WORDS = {int: "INT", float: "FLOAT", Path: "PATH"}  # of other types: TEXT


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
        """The flag of its key first, then its aliases. A switch has a second form of each:
        `negated`.
        """
        marks = [mark for mark in self.about.metadata if isinstance(mark, Alias)]
        aliases = [flag for mark in marks if not isinstance(mark, Earlier) for flag in mark.aliases]
        return [f"--{self.key}".replace("_", "-"), *aliases]

    @property
    def earlier_flags(self) -> list[str]:
        """Flags of earlier versions, which stay valid."""
        marks = [mark for mark in self.about.metadata if isinstance(mark, Earlier)]
        return [flag for mark in marks for flag in mark.aliases]

    @property
    def is_switch(self) -> bool:
        return self.about.annotation is bool

    @property
    def is_list(self) -> bool:
        return get_origin(self.about.annotation) is tuple

    @property
    def alone(self) -> str:
        """The value that a flag without one sets; "" where the flag needs a value."""
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


def by_present_names(kind: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by key, where a section may be called as in an earlier version: {"card.code": "x"} is
    {"manifest.code": "x"}. A value by the present name wins.
    """
    renamed = dict[str, str](getattr(kind, "renamed", {}))
    for name, about in kind.model_fields.items():
        if isinstance(about.annotation, type) and issubclass(about.annotation, Section):
            renamed |= dict.fromkeys(about.annotation.earlier, name)
    found: dict[str, Any] = {}
    for key, value in values.items():
        first, dot, rest = key.partition(".")
        if first in renamed and first not in kind.model_fields:
            found.setdefault(f"{renamed[first]}{dot}{rest}", value)
        else:
            found[key] = value
    return found


def describe(kind: type[BaseModel]) -> dict[str, str]:
    """The explanation of every key, "a.b" -> its docstring."""
    return {key: option.about.description or "" for key, option in options(kind).items()}


def negated(flag: str) -> str:
    """The flag that turns a switch off: --network.no-mdns for --network.mdns."""
    section, dot, name = flag.removeprefix("--").rpartition(".")
    return f"--{section}{dot}no-{name}"


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}. An empty section stays, as it may be a name that does not
    exist.
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def help_page(kind: type[BaseModel], program: str) -> str:
    """`--help-all`: every option, its explanation and its default. Those that stand in a section
    follow the others.
    """
    sections: dict[str, list[Option]] = {"": []}
    for option in options(kind).values():
        sections.setdefault(option.section, []).append(option)
    parts = [
        f"usage: {program} [OPTIONS]",
        "",
        *textwrap.wrap(" ".join((kind.__doc__ or "").split()), WIDTH),
    ]
    for title, listed in sections.items():
        if listed:
            parts += ["", f"{title} options".strip(), "-" * (WIDTH - 2)]
        for option in listed:
            first, *aliases = option.flags
            named = ", ".join([first, *([negated(first)] if option.is_switch else []), *aliases])
            named += _placeholder(option)
            parts += textwrap.wrap(
                named, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
            )
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


def meant(name: str, names: Iterable[str]) -> str:
    """The one of `names` that was probably meant, the first of several; "" where none is near."""
    return next(_likely(name, list(names)), "")


def _likely(name: str, names: Sequence[str]) -> Iterator[str]:
    """Names that may be meant, the likeliest first. An option that moved:
    --environment.dataset.file is --dataset.file. The right name in the wrong section, or a part of
    it: --learning-rate is --training.learning-rate, --rounds is --max-rounds. Then names that are
    spelt nearly so, or begin so, as a section does: --modell is --model.name.
    """
    last, (section, dot, _) = _last(name), name.partition(".")
    yield from difflib.get_close_matches(name, names, n=1, cutoff=SURE)
    yield from (each for each in names if _moved(name, each))
    same = [each for each in names if _last(each) == last]
    sections = {each.lstrip("-").split(".")[0]: each for each in reversed(names) if "." in each}
    yield from [sections[last]] if not dot and last in sections else []
    yield from same if not dot or len({each.split(".")[0] for each in same}) == 1 else []
    yield from [sections[last]] if last in sections else []
    longer = [
        each for each in names if {*re.split("[-_]", last)} < {*re.split("[-_]", _last(each))}
    ]
    yield from (each for each in longer if not dot or each.split(".")[0] == section)
    close = difflib.get_close_matches(
        name, names, n=5, cutoff=CLOSE if len(name) > SHORT else CLOSE_IF_SHORT
    )
    yield from (
        each for each in close if difflib.SequenceMatcher(None, last, _last(each)).ratio() >= ALIKE
    )
    for among in () if dot else (sections, {_last(each): each for each in reversed(names)}):
        near = difflib.get_close_matches(last, among, n=1, cutoff=NEARLY)
        begun = [each for each in among if min(len(each), len(last)) >= BEGUN]
        begun = [each for each in begun if each.startswith(last) or last.startswith(each)]
        yield from (among[each] for each in near + begun)


def wrong(problem: Any, secret: bool = False) -> str:
    """What pydantic found in a value, for a person: what it should be, and, unless it is secret,
    what it is.
    """
    said = re.sub(
        r"^(Input|String|Value error,|Tuple|List) *", "", str(problem["msg"])
    ).removesuffix(".")
    said = re.sub(r"^should be", "must be", said)
    said = re.sub(r"valid dictionary or instance of \w+", "section, with keys of its own", said)
    said = re.sub(r"is not a valid path.*", "must be a path", said)
    said = re.sub(r", unable to parse.*| with a fractional part", "", said)
    if problem["type"] in ("missing", "too_long"):
        said = f"must have {'more' if problem['type'] == 'missing' else 'fewer'} entries"
    return said if secret else f"{said}, not {printable(repr(problem['input']), SHOWN)}"


def _moved(old: str, new: str) -> bool:
    """Whether `new` says the same in another section: training.loss_type in loss.type."""
    one, other = (re.sub(r"[-.]", "_", name.lstrip("-")) for name in (old, new))
    return one == other or one.endswith(f"_{other}") or ("." in old and other.endswith(f"_{one}"))


def _last(name: str) -> str:
    """The last part of a name, without `no-`: mdns of --network.no-mdns."""
    return name.lstrip("-").rsplit(".", 1)[-1].removeprefix("no-")
