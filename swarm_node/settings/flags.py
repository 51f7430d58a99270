"""From the words behind a command to texts by option: which flag a word is, and which words are its value.

Nothing is converted here. A text becomes a number, a path or a list where those of files and variables do, in the
configuration, so that a mistake reads the same wherever it stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_origin

from pydantic import BaseModel

from swarm_node.common.errors import UserError, printable
from swarm_node.settings.mistakes import meant
from swarm_node.settings.sections import Alone

TRUTH = {"true": True, "false": False}  # what may stand behind a switch


@dataclass(frozen=True, slots=True)
class Option:
    """One option, and how it takes its value."""

    key: str  # as in a file: training.learning_rate
    switch: bool  # --network.mdns, --network.no-mdns
    several: bool  # takes all words up to the next flag
    may_be_empty: bool  # the flag alone empties a list that is not empty by itself
    alone: str  # the value of a flag that stands alone; "" where it needs one


@dataclass(slots=True)
class Words:
    """What was typed, by key."""

    first: list[str] = field(default_factory=list)  # what is no flag's
    values: dict[str, str | list[str] | bool] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)  # as they were typed


def options_of(kind: type[BaseModel]) -> dict[str, tuple[Option, bool]]:
    """Every flag of this configuration, with its option, and what it says where that is a switch."""
    found: dict[str, tuple[Option, bool]] = {}
    _add(found, kind, "")
    return found


def parse(kind: type[BaseModel], argv: Sequence[str], command: str, first: str = "") -> Words:
    """The words of a command, in order. UserError for a flag that it lacks, one without its value, and one given twice.

    `first` says what the first word without dashes is; where it is empty, no such word is taken.
    """
    known, words, rest = options_of(kind), Words(), list(argv)
    while rest:
        word = rest.pop(0)
        if not _is_flag(word):
            words.first.append(word)
            continue
        name, _, attached = word.partition("=")
        option, says = _find(known, name, command)
        given = [attached] if "=" in word else []
        if option.several or not given:
            given += _behind(option, rest)
        value = _value(option, says, name, given)
        if option.several and isinstance(before := words.values.get(option.key), list) and isinstance(value, list):
            value = [*before, *value]
        elif option.key in words.values:
            raise UserError(f"{name} is given twice: give it once")
        words.values[option.key], words.flags[option.key] = value, name
    if len(words.first) > bool(first):
        extra = printable(words.first[bool(first)], 60)
        takes = f"beside flags it takes only {first}" if first else "it takes only flags"
        raise UserError(f"{extra!r} is no flag of {command}: {takes}; see {command} --help")
    return words


def _add(found: dict[str, tuple[Option, bool]], kind: type[BaseModel], prefix: str) -> None:
    for name, about in kind.model_fields.items():
        if isinstance(about.annotation, type) and issubclass(about.annotation, BaseModel):
            _add(found, about.annotation, f"{prefix}{name}.")
            continue
        several = get_origin(about.annotation) is tuple
        alone = next((mark.value for mark in about.metadata if isinstance(mark, Alone)), "")
        option = Option(prefix + name, about.annotation is bool, several, bool(about.default), alone)
        flag = f"--{prefix}{name}".replace("_", "-")
        marks = [alias for mark in about.metadata for alias in getattr(mark, "aliases", None) or ()]
        for each in (flag, *marks):
            found[each] = (option, True)
            if option.switch:
                found[f"{each[: -len(_last(each))]}no-{_last(each)}"] = (option, False)


def _last(flag: str) -> str:
    return flag.removeprefix("--").rsplit(".", 1)[-1]


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def _find(known: Mapping[str, tuple[Option, bool]], name: str, command: str) -> tuple[Option, bool]:
    found = known.get(name.replace("_", "-"))
    if found is None:
        near = meant(name, known)
        advice = f"did you mean {near}?" if near else f"see {command} --help-all"
        raise UserError(f"{command} has no option {printable(name, 60)}; {advice}")
    return found


def _behind(option: Option, rest: list[str]) -> list[str]:
    """The words that are this flag's; they are taken away. A negative number is a value, a flag is none."""
    if option.switch:
        return [rest.pop(0)] if rest and rest[0].lower() in TRUTH else []
    taken: list[str] = []
    while rest and (option.several or not taken):
        if _is_flag(rest[0]) and (option.several or option.alone or rest[0].startswith("--")):
            break
        taken.append(rest.pop(0))
    return taken


def _value(option: Option, says: bool, name: str, given: list[str]) -> str | list[str] | bool:
    if option.switch:
        text = given[0].lower() if given else "true"
        if text not in TRUTH:
            raise UserError(f"{name} takes true or false, or stands alone, not {printable(given[0], 60)!r}")
        return TRUTH[text] is says
    empty = not any(given) if option.several else not given and not option.alone
    if empty and not (option.several and option.may_be_empty):
        raise UserError(f"{name} needs a value")
    return given if option.several else (given or [option.alone])[0]
