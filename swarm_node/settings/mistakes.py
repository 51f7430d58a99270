"""What is wrong with an option, in one line.

Pydantic finds what is wrong, and says it for programmers. Here it is said for a person: under the
name by which this person gave the option, with what it should be, or with the name that was
probably meant.
"""

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from swarm_node.common.errors import UserError, printable
from swarm_node.common.nearest import meant
from swarm_node.settings.options import describe, options, sections
from swarm_node.settings.secret import UNSHOWN, Secret

SHOWN = 60  # characters of a wrong value
MOST = 3  # mistakes that one line tells
NEAR = 0.6  # least similarity of a name that a script was probably meant to write


class WrongOption(UserError, ValueError):
    """A mistake in a configuration that a script makes; as pydantic's own error, a ValueError."""


def warn(line: str) -> None:
    """Says something that is not a mistake, or that may be none, and continues."""
    sys.stderr.write(f"swarm-node: warning: {line}\n")


def in_one_line(mistakes: Iterable[str]) -> str:
    """The first of these mistakes, each once."""
    each_once = list(dict.fromkeys(mistakes))
    return "; ".join(each_once[:MOST])


def key_of(problem: Any) -> str:
    """The key of the option that pydantic found a problem in."""
    return ".".join(part for part in problem["loc"] if isinstance(part, str))


def told(kind: type[BaseModel], problem: Any, written: str) -> str:
    """A problem that pydantic found in a configuration of this kind. `written`: its option, as the
    user wrote it.
    """
    key = key_of(problem)
    if problem["type"] != "extra_forbidden":
        option = options(kind).get(key)
        is_secret = problem["type"] == UNSHOWN or (option is not None and option.is_a(Secret))
        return f"{written}: {wrong(problem, is_secret)}"
    near = meant(key, describe(kind))
    advice = f"did you mean {near!r}?" if near else "see `swarm-node run --help-all`"
    place = written.removesuffix(key) if written.endswith(key) else ""  # such as the file's name
    return f"{place}unknown key {printable(key)!r}; {advice}"


def told_to_a_script(kind: type[BaseModel], problem: Any) -> str:
    """The line that `told` makes, with the names of keywords and of sections, as a script writes
    them.
    """
    if problem["type"] != "extra_forbidden":
        return told(kind, problem, key_of(problem))
    *outer, last = [part for part in problem["loc"] if isinstance(part, str)]
    section = kind
    for name in outer:
        section = sections(section)[name]
    beside = [*section.model_fields, *sections(section)]
    near = get_close_matches(last, beside, 1, NEAR)
    if not near and (elsewhere := meant(".".join([*outer, last]), describe(kind))):
        near = [elsewhere]
    owner = ".".join(outer) or kind.__name__
    advice = f"did you mean {near[0]!r}?" if near else "see docs/reference/options.md"
    return f"{owner} has no option {printable(last, SHOWN)!r}; {advice}"


def wrong(problem: Any, is_secret: bool = False) -> str:
    """What pydantic found in a value, for a person: what it should be, and, unless it is secret,
    what it is.
    """
    text = str(problem["msg"]).removesuffix(".")
    text = re.sub(r"^(Input|String|Value error,|Tuple|List) *", "", text)
    text = re.sub(r"^should be", "must be", text)
    text = re.sub(r"valid dictionary or instance of \w+", "section, with keys of its own", text)
    text = re.sub(r"is not a valid path.*", "must be a path", text)
    text = re.sub(r", unable to parse.*| with a fractional part", "", text)
    if problem["type"] == "missing":
        text = "must have more entries"
    if problem["type"] == "too_long":
        text = "must have fewer entries"
    return text if is_secret else f"{text}, not {printable(repr(problem['input']), SHOWN)}"
