"""`--help-all`: every option of a command, its explanation and its default, for a terminal of 80 columns."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

WIDTH = 80
WORDS = {int: "INT", float: "FLOAT", Path: "PATH"}  # of other types: TEXT


def help_page(kind: type[BaseModel], program: str) -> str:
    """The whole page. Options that stand in a section follow those that do not."""
    parts = [f"usage: {program} [OPTIONS]", "", *textwrap.wrap(" ".join((kind.__doc__ or "").split()), WIDTH)]
    for title, options in _sections(kind):
        parts += ["", f"{title} options".strip(), "-" * (WIDTH - 2)]
        for flags, about in options:
            named = f"{', '.join(flags)}{_value(about.annotation)}"
            parts += textwrap.wrap(named, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
            text = f"{about.description or ''} (default: {_shown(about.default)})"
            parts += textwrap.wrap(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(parts) + "\n"


def _sections(kind: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, list[tuple[list[str], FieldInfo]]]]:
    """Dotted name of each section, its options with all their flags. The one without a name comes first."""
    inner = {name: about for name, about in kind.model_fields.items() if _is_section(about.annotation)}
    own = [(_flags(prefix + name, about), about) for name, about in kind.model_fields.items() if name not in inner]
    if own:
        yield prefix.removesuffix("."), own
    for name, about in inner.items():
        section: Any = about.annotation
        yield from _sections(section, f"{prefix}{name}.")


def _flags(key: str, about: FieldInfo) -> list[str]:
    others = [alias for mark in about.metadata for alias in getattr(mark, "aliases", ())]
    flag = f"--{key}".replace("_", "-")
    section, dot, name = flag.removeprefix("--").rpartition(".")
    return [flag, *([f"--{section}{dot}no-{name}"] if about.annotation is bool else []), *others]


def _value(annotation: Any) -> str:
    if annotation is bool:
        return ""
    if get_origin(annotation) is Literal:
        return f" {{{', '.join(map(str, get_args(annotation)))}}}"
    if get_origin(annotation) is tuple:
        return " LIST"
    if isinstance(annotation, UnionType):
        annotation = get_args(annotation)[0]
    return f" {WORDS.get(annotation, 'TEXT')}"


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return " ".join(map(str, default)) or "none"
    return str(default) if str(default) and default is not None else "none"


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
