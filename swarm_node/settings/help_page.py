"""`--help-all`: every option of a command, on a page."""

import textwrap
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from swarm_node.settings.options import Option, negated, options

WIDTH = 80  # characters of a terminal
WORDS: dict[Any, str] = {int: "INT", float: "FLOAT", Path: "PATH"}  # of other types: TEXT


def help_page(kind: type[BaseModel], program: str) -> str:
    """Every option, its explanation and its default. Those that stand in a section follow the
    others.
    """
    by_section: dict[str, list[Option]] = {"": []}
    for option in options(kind).values():
        by_section.setdefault(option.section, []).append(option)
    about = " ".join((kind.__doc__ or "").split())
    lines = [f"usage: {program} [OPTIONS]", "", *textwrap.wrap(about, WIDTH)]
    for section, listed in by_section.items():
        if listed:
            lines += ["", f"{section} options".strip(), "-" * (WIDTH - 2)]
        for option in listed:
            lines += _entry(option)
    return "\n".join(lines) + "\n"


def _entry(option: Option) -> list[str]:
    first, *aliases = option.flags
    flags = [first, negated(first), *aliases] if option.is_switch else [first, *aliases]
    names = ", ".join(flags) + _placeholder(option)
    text = f"{option.about.description or ''} (default: {_shown(option.about.default)})"
    lines = textwrap.wrap(
        names, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )
    indent = " " * 6
    return lines + textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)


def _placeholder(option: Option) -> str:
    """What stands for the value after the flag."""
    annotation = option.about.annotation
    if option.is_switch:
        return ""
    if option.is_list:
        return " LIST"
    if get_origin(annotation) is Literal:
        choices = ", ".join(map(str, get_args(annotation)))
        return f" {{{choices}}}"
    if isinstance(annotation, UnionType):
        annotation = get_args(annotation)[0]
    return f" {WORDS.get(annotation, 'TEXT')}"


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return " ".join(map(str, default)) or "none"
    return str(default) if str(default) and default is not None else "none"
