"""Reads the words of a command line: which are flags, which are values, and which is the file.

A word that looks like a flag is one, wherever it stands; so a text such as "-x + 3 = 5" and a
negative number are none. A flag takes the word behind it, a list all words up to the next flag, a
switch none but true or false. Behind the word `--` nothing is a flag. What is left over is the
first word of the command, such as its file.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from pydantic import BaseModel

from swarm_node.common.errors import UserError, printable
from swarm_node.common.nearest import meant
from swarm_node.common.parsing import parse_json
from swarm_node.settings.options import Option, negated, options
from swarm_node.settings.secret import Secret
from swarm_node.settings.sources import OptionSource

# What the first word without dashes is, where a command takes such a file
CONFIG_FILE = "CONFIG.toml"
TRUTH = {"true": True, "false": False}  # what may stand behind a switch
# Behind this word nothing is a flag, as in other programs
END_OF_FLAGS = "--"
FLAG = re.compile(r"(?:--|-(?![\d.,]))\w[^\s=]*(?:=.*)?", re.DOTALL)
OF_EVERY_COMMAND = ("--help", "--help-all")
NEAR = 0.8  # least similarity to one of these


class Flag(NamedTuple):
    """What a flag means."""

    option: Option
    turns_on: bool  # a switch, where it stands alone: --network.mdns does, --network.no-mdns not


def parse(
    kind: type[BaseModel], argv: Sequence[str], command: str, first: str = ""
) -> tuple[str, OptionSource]:
    """The first word that is not a flag's, and what the flags say. UserError for a flag that the
    command lacks, one without its value, and one given twice.

    `first` says what the first word without dashes is; where it is empty, no such word is taken.
    """
    known, found, loose = flags_of(kind), OptionSource("flag"), list[str]()
    rest, texts = flags_and_words(argv)
    while rest:
        word = rest.pop(0)
        if not is_flag(word):
            loose.append(word)
            continue
        name, equals, attached = word.partition("=")
        flag = find_flag(known, name, command, first)
        values = [attached] if equals else []
        if flag.option.is_list or not values:
            values += _taken_from(rest, flag.option)
        _set(found, flag, name, values)
    loose += texts
    if len(loose) > bool(first):
        extra = printable(loose[bool(first)], 60)
        takes = f"apart from flags it takes only {first}" if first else "it takes only flags"
        raise UserError(f"{extra!r} is not a flag of {command}: {takes}; see {command} --help")
    return (loose[0] if loose else ""), found


def flags_of(kind: type[BaseModel]) -> dict[str, Flag]:
    """Every flag of this configuration, and what it means."""
    found: dict[str, Flag] = {}
    for option in options(kind).values():
        for name in [*option.flags, *option.earlier_flags]:
            found[name] = Flag(option, True)
            if option.is_switch:
                found[negated(name)] = Flag(option, False)
    return found


def find_flag(known: Mapping[str, Flag], name: str, command: str, first: str = "") -> Flag:
    """What a flag means. UserError, with the flag that was probably meant, where there is none.
    `first`: what the command takes beside flags.
    """
    flag = known.get(name.replace("_", "-"))
    if flag is not None:
        return flag
    near = _meant(known, name, command)
    advice = f"did you mean {near}?" if near else f"see {command} --help-all"
    if first not in ("", CONFIG_FILE):
        advice += f"; {first} that begins with a dash must come after {END_OF_FLAGS}"
    raise UserError(f"{command} has no option {printable(name, 60)}; {advice}")


def _meant(known: Mapping[str, Flag], name: str, command: str) -> str:
    others = [*OF_EVERY_COMMAND, "--version"] if command.endswith(" run") else OF_EVERY_COMMAND
    for other in get_close_matches(name, others, 1, NEAR):
        return other
    near = meant(name, known)
    is_negated = name.rpartition(".")[2].lstrip("-").startswith("no-")
    return negated(near) if is_negated and negated(near) in known else near


def is_flag(word: str) -> bool:
    """Whether this word is a flag, and not a value, a number or a text that begins with a dash."""
    return FLAG.fullmatch(word) is not None


def flags_and_words(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before the first `--`, and behind it."""
    end = argv.index(END_OF_FLAGS) if END_OF_FLAGS in argv else len(argv)
    return list(argv[:end]), list(argv[end + 1 :])


def read_value(option: Option | None, text: str) -> Any:
    """The text, parsed if it is JSON (list, number, null), unless the option is a text: a swarm may
    be called 12.
    """
    if option and option.is_a(str, Secret):
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text


def _taken_from(rest: list[str], option: Option) -> list[str]:
    """Takes the words of this option from `rest`, and returns them."""
    if option.is_switch:
        return [rest.pop(0)] if rest and rest[0].lower() in TRUTH else []
    taken: list[str] = []
    while rest and (option.is_list or not taken):
        # A value that must be there may begin with one dash
        needs_a_value = not option.is_list and not option.alone
        may_be_a_value = needs_a_value and not rest[0].startswith("--")
        if is_flag(rest[0]) and not may_be_a_value:
            break
        taken.append(rest.pop(0))
    return taken


def _set(found: OptionSource, flag: Flag, name: str, values: list[str]) -> None:
    """Notes what a flag says. A list may come in parts."""
    key = flag.option.key
    value = _value(flag, name, values)
    if flag.option.is_list:
        value = [*found.values.get(key, []), *value]
    elif key in found.values:
        raise UserError(f"{name} is given twice: give it once")
    found.values[key], found.names[key] = value, name


def _value(flag: Flag, name: str, values: list[str]) -> Any:
    option = flag.option
    if option.is_switch:
        text = values[0].lower() if values else "true"
        if text not in TRUTH:
            wrong = printable(values[0], 60)
            raise UserError(f"{name} takes true, false or no value, not {wrong!r}")
        return TRUTH[text] is flag.turns_on
    # The flag alone empties a list that is not empty by itself
    is_missing = not any(values) and not option.about.default if option.is_list else not values
    if is_missing and not option.alone:
        raise UserError(f"{name} needs a value after it; a variable of your shell may be empty")
    if option.is_list:
        return values
    return read_value(option, values[0] if values else option.alone)
