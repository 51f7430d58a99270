"""Resolves options from all places: defaults < home < file < environment < flags. A mistake is
reported in a line.

That line names the option as the user wrote it: a flag, a variable, or a key of a file. Only the
configuration turns a text into a number, a path or a list, so that a mistake reads the same
wherever the option stands.
"""

import os
import re
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from swarm_node.common import plugins
from swarm_node.common.errors import UserError, printable, reason_of
from swarm_node.common.files import read_plain
from swarm_node.common.parsing import parse_json, parse_toml
from swarm_node.settings import of_home, programs, with_sections
from swarm_node.settings.options import (
    Option,
    by_present_names,
    describe,
    flatten,
    help_page,
    meant,
    negated,
    options,
    wrong,
)
from swarm_node.settings.secret import UNSHOWN, Secret

PREFIX = "SWARM_NODE_"  # SWARM_NODE_TRAINING__LEARNING_RATE=1e-4 sets training.learning_rate
# What the first word without dashes is, where a command takes such a file
CONFIG_FILE = "CONFIG.toml"
# In a home: options of every start there, the weakest of all that is given
HOME_FILE = "options.toml"
MAX_FILE_BYTES = 1024 * 1024
KINDS = (
    programs.NodeConfig, programs.CheckConfig, programs.DoctorConfig, programs.ArchiveConfig,
    programs.BootstrapConfig, programs.EvaluationConfig, programs.AskConfig,
)  # fmt: skip
# Kubernetes sets SWARM_NODE_PORT so for a service called swarm-node
OTHERS = ("tcp://", "udp://", "sctp://")
TRUTH = {"true": True, "false": False}  # what may stand behind a switch
# Behind this word nothing is a flag, as in other programs
END_OF_FLAGS = "--"
# A flag is one word. So a text such as "-x + 3 = 5" is none, nor is a negative number
FLAG = re.compile(r"(?:--|-(?![\d.,]))\w[^\s=]*(?:=.*)?", re.DOTALL)
NEAR = 0.6  # least similarity of a name that a script was probably meant to write
C = TypeVar("C", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Source:
    """Values from one place, by their keys."""

    kind: str  # "home", "file", "environment" or "flag"
    values: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # of keys, as the user wrote them
    file: Path | None = None  # of a home
    # Values that a home may not set: where nothing stronger sets these keys, a line names them
    refused: dict[str, Any] = field(default_factory=dict)


def from_command_line(
    kind: type[C], argv: Sequence[str], program: str, flags_only: bool = False, first: str = ""
) -> C:
    """A configuration from `[FILE.toml] [--flags]`. With --help it prints all options, and exits.

    It has the sections that extensions registered for it. `first` is the key that the first word
    without dashes belongs to, in place of a file.
    """
    kind = with_sections(kind)
    if "--help" in flags_and_words(argv)[0]:
        print(help_page(kind, program), end="")
        raise SystemExit(0)
    file, given = sources_of(kind, argv, program, flags_only, first)
    return _combined(kind, given, file)


def from_python(kind: type[C], file: Path | str | None, *values: Mapping[str, Any]) -> C:
    """A configuration from a file or a shipped one's name, and values: later ones win. UserError,
    in one line.
    """
    file, kind = shipped(Path(file)) if file else None, with_sections(kind)
    stored = by_present_names(kind, flatten(read_options(file)) if file else {})
    given = [
        Source("file", stored),
        *(Source("flag", by_present_names(kind, flatten(v))) for v in values),
    ]
    return _combined(kind, [_of_home(kind, given), *given], file)


class WrongOption(UserError, ValueError):
    """A mistake in a configuration that a script makes; as pydantic's own error, a ValueError."""


# Classes that `told_in_a_line` made, and of what: another process makes them again
_CORES: dict[type, type[BaseModel]] = {}


class _ToldInALine:
    """Makes a configuration as its class does, and tells a mistake as the command line does."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            lines = [_in_python(type(self), problem) for problem in error.errors(include_url=False)]  # type: ignore[arg-type]
            raise WrongOption("; ".join(list(dict.fromkeys(lines))[:3])) from None

    def __reduce__(self) -> Any:
        return _made_again, (_CORES[type(self)], vars(self))


@cache
def told_in_a_line(kind: type[C]) -> type[C]:
    """The class with its extensions' sections, whose objects are made with a UserError of one line
    for a mistake.
    """
    whole = with_sections(kind)
    about = {"__doc__": kind.__doc__, "__module__": kind.__module__}
    made: type[C] = types.new_class(
        kind.__name__, (_ToldInALine, whole), exec_body=lambda space: space.update(about)
    )
    _CORES[made] = kind
    return made


def _made_again(kind: type[C], values: dict[str, Any]) -> C:
    made: C = told_in_a_line(kind).model_construct(**values)
    return made


def _in_python(kind: type[BaseModel], problem: Any) -> str:
    """What is wrong, with the name as a script writes it."""
    *outer, last = [part for part in problem["loc"] if isinstance(part, str)]
    if problem["type"] != "extra_forbidden":
        return _line(kind, problem, [])
    section: Any = kind
    for name in outer:
        section = section.model_fields[name].annotation
    near = get_close_matches(last, section.model_fields, 1, NEAR) or [
        each for each in [meant(".".join([*outer, last]), describe(kind))] if each
    ]
    named = f"{'.'.join(outer)} has" if outer else f"{kind.__name__} has"
    advice = f"did you mean {near[0]!r}?" if near else "see docs/reference/options.md"
    return f"{named} no option {printable(last, 60)!r}; {advice}"


def shipped(file: Path) -> Path:
    """The file, or, where there is none, the shipped configuration of this name. UserError for a
    name close to one.
    """
    # Of a checkout, of an installation
    places = Path(__file__).parents[2], Path(sys.prefix, "share", "swarm-node")
    names = {place.stem: place for folder in places for place in folder.glob("configs/*.toml")}
    if not file.exists() and (near := meant(str(file), names)) != str(file) and near:
        raise UserError(f"config file {file} does not exist; did you mean {near}?")
    return file if file.exists() else names.get(str(file), file)


def sources_of(
    kind: type[BaseModel],
    argv: Sequence[str],
    program: str,
    flags_only: bool = False,
    first: str = "",
) -> tuple[Path | None, list[Source]]:
    """The configuration file, if one is named, and all sources, the weakest first. See
    `from_command_line`.
    """
    kind = with_sections(kind)
    takes = first.split(".")[-1].upper() if first else "" if flags_only else CONFIG_FILE
    word, flags = parse(kind, argv, program, takes)
    file = shipped(Path(word)) if word and not first else None
    stored = by_present_names(kind, flatten(read_options(file)) if file else {})
    variables = _variables(kind, os.environ)
    given = [
        Source("file", stored, {key: f"{file}: {key}" for key in stored}),
        Source("environment", variables, {key: _variable(key) for key in variables}),
        flags,
    ]
    given.insert(0, _of_home(kind, given))
    if word and first:
        if first in flags.values:
            raise UserError(f"{flags.names[first]} is given twice: {printable(word)!r} is one, too")
        flags.values[first], flags.names[first] = word, takes
    return file, given


def parse(
    kind: type[BaseModel], argv: Sequence[str], command: str, first: str = ""
) -> tuple[str, Source]:
    """The first word that is no flag's, and what the flags say. UserError for a flag that the
    command lacks, one without its value, and one given twice.

    `first` says what the first word without dashes is; where it is empty, no such word is taken.
    """
    known, found, loose = flags_of(kind), Source("flag"), list[str]()
    rest, words = flags_and_words(argv)
    while rest:
        word = rest.pop(0)
        if not is_flag(word):
            loose.append(word)
            continue
        name, _, attached = word.partition("=")
        option, says = find_flag(known, name, command, first)
        given = [attached] if "=" in word else []
        if option.is_list or not given:
            given += _behind(option, rest)
        value = _value(option, says, name, given)
        if option.key in found.values and not option.is_list:
            raise UserError(f"{name} is given twice: give it once")
        found.values[option.key] = (
            found.values.get(option.key, []) + value if option.is_list else value
        )
        found.names[option.key] = name
    loose += words
    if len(loose) > bool(first):
        extra = printable(loose[bool(first)], 60)
        takes = f"apart from flags it takes only {first}" if first else "it takes only flags"
        raise UserError(f"{extra!r} is not a flag of {command}: {takes}; see {command} --help")
    return next(iter(loose), ""), found


def flags_of(kind: type[BaseModel]) -> dict[str, tuple[Option, bool]]:
    """Every flag of this configuration, with its option and, for a switch, the value that the flag
    sets.
    """
    found: dict[str, tuple[Option, bool]] = {}
    for option in options(kind).values():
        for flag in [*option.flags, *option.earlier_flags]:
            found[flag] = option, True
            if option.is_switch:
                found[negated(flag)] = option, False
    return found


def find_flag(
    known: Mapping[str, tuple[Option, bool]], name: str, command: str, first: str = ""
) -> tuple[Option, bool]:
    """The option of a flag. UserError, with the flag that was probably meant, where there is
    none. `first`: what the command takes beside flags.
    """
    found = known.get(name.replace("_", "-"))
    if found is None:
        others = ("--help", "--help-all", *(["--version"] if command.endswith(" run") else []))
        near = next(iter(get_close_matches(name, others, 1, 0.8)), "") or meant(name, known)
        if name.rpartition(".")[2].lstrip("-").startswith("no-") and negated(near) in known:
            near = negated(near)
        advice = f"did you mean {near}?" if near else f"see {command} --help-all"
        if first not in ("", CONFIG_FILE):
            advice += f"; {first} that begins with a dash must come after {END_OF_FLAGS}"
        raise UserError(f"{command} has no option {printable(name, 60)}; {advice}")
    return found


def _combined(kind: type[C], given: Sequence[Source], file: Path | None) -> C:
    """The configuration. UserError, one line, for what is wrong in it. Plug-ins may be files beside
    `file`.
    """
    values: dict[str, Any] = {}
    _warn_of_home(kind, given)
    for source in given:
        values |= source.values
        for key in options(kind).keys() & source.values.keys():
            # By Field(deprecated="what to use"), for one release
            if instead := options(kind)[key].about.deprecated:
                warning = f"{source.names[key]} goes with the next release; {instead}"
                print(f"swarm-node: warning: {warning}", file=sys.stderr)
    try:
        return kind.model_validate(
            _nested(values), context={"folder": file.expanduser().parent if file else Path()}
        )
    except ValidationError as error:
        lines = [_line(kind, problem, given) for problem in error.errors(include_url=False)]
        raise UserError("; ".join(list(dict.fromkeys(lines))[:3])) from error


def all_kinds() -> list[type[BaseModel]]:
    """The configurations of all commands, those of extensions included: a variable may be meant for
    any of them.
    """
    return [
        *KINDS,
        *(plugins.load("configurations", name) for name in plugins.registered("configurations")),
    ]


def origins(given: Sequence[Source]) -> dict[str, str]:
    """Where each key was set last, as `Source.kind` says it."""
    return {key: source.kind for source in given for key in source.values}


def is_flag(word: str) -> bool:
    """Whether this word is a flag, and not a value, a number or a text that begins with a dash."""
    return FLAG.fullmatch(word) is not None


def flags_and_words(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before the first `--`, and behind it."""
    end = argv.index(END_OF_FLAGS) if END_OF_FLAGS in argv else len(argv)
    return list(argv[:end]), list(argv[end + 1 :])


def _behind(option: Option, rest: list[str]) -> list[str]:
    """Takes the words of this flag from `rest`, and returns them. A negative number is a value; a
    flag is none.
    """
    if option.is_switch:
        return [rest.pop(0)] if rest and rest[0].lower() in TRUTH else []
    taken: list[str] = []
    while rest and (option.is_list or not taken):
        if is_flag(rest[0]) and (option.is_list or option.alone or rest[0].startswith("--")):
            break
        taken.append(rest.pop(0))
    return taken


def _value(option: Option, says: bool, name: str, given: list[str]) -> Any:
    if option.is_switch:
        text = given[0].lower() if given else "true"
        if text not in TRUTH:
            raise UserError(
                f"{name} takes true or false, or stands alone, not {printable(given[0], 60)!r}"
            )
        return TRUTH[text] is says
    if option.is_list:
        # The flag alone empties a list that is not empty by itself
        if not any(given) and not option.about.default:
            raise UserError(f"{name} needs a value after it; a variable of your shell may be empty")
        return given
    if not given and not option.alone:
        raise UserError(f"{name} needs a value after it; a variable of your shell may be empty")
    return _read(option, (given or [option.alone])[0])


def _read(option: Option | None, text: str) -> Any:
    """The text, parsed if it is JSON (list, number, null), unless the option is a text: a swarm may
    be called 12.
    """
    try:
        return text if option and option.is_a(str, Secret) else parse_json(text)
    except ValueError:
        return text


def read_options(file: Path, follow: bool = True) -> dict[str, Any]:
    """Reads a TOML file. UserError if it is missing or not TOML; without `follow` also if it is a
    link.
    """
    try:
        content = read_plain(file.expanduser(), MAX_FILE_BYTES + 1, follow=follow)
        if len(content) > MAX_FILE_BYTES:
            raise UserError(f"config file {file} is larger than {MAX_FILE_BYTES >> 20} MB")
        return parse_toml(content.decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise UserError(
            f"config file {file} does not exist: give the path of one, or the name of a shipped one"
        ) from error
    except OSError as error:
        raise UserError(f"config file {file} cannot be read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"config file {file} is not TOML: it is not UTF-8, save it as that"
        ) from error
    except ValueError as error:  # no TOML, a number of thousands of digits
        text = printable(str(error).partition(";")[0], 120)
        raise UserError(
            f"config file {file} is not TOML: {text}; text stands in quotes, a section in brackets"
        ) from error


def _of_home(kind: type[BaseModel], given: Sequence[Source]) -> Source:
    """The options of this command that the home's file may set (`of_home.py`); none where a command
    has no home.
    """
    if "home" not in kind.model_fields:
        return Source("home")
    named = next(
        (source.values["home"] for source in reversed(given) if "home" in source.values), None
    )
    file = Path(os.path.expanduser(str(named or kind.model_fields["home"].default)), HOME_FILE)
    stored = flatten(read_options(file, follow=False)) if os.path.lexists(file) else {}
    kept = by_present_names(kind, stored)
    kept = _peers_suggested(kept, given)
    sorted_out = of_home.sorted_out(kind, kept)
    names = {key: f"{file}: {key}" for key in kept}
    return Source("home", sorted_out.taken, names, file, sorted_out.refused)


def _warn_of_home(kind: type[BaseModel], given: Sequence[Source]) -> None:
    """Says in one line which options of a home's file are left out, though nothing stronger sets
    them.
    """
    stronger = {key for source in given if source.kind != "home" for key in source.values}
    for source in given:
        refused = {key: value for key, value in source.refused.items() if key not in stronger}
        if source.file is not None and (line := of_home.warning(kind, source.file, refused)):
            print(f"swarm-node: warning: {line}", file=sys.stderr)


# An older `join` wrote the addresses of a code as if the user had given them
PEERS = {"network.peers": "network.suggested", "peers": "suggested"}


def _peers_suggested(kept: Mapping[str, Any], given: Sequence[Source]) -> dict[str, Any]:
    """What a home keeps, with its peers as suggested ones: only its user gives a node addresses
    that it dials wherever they lead. Where the user does so, those of the home are left out.
    """
    named = any(key in source.values for source in given for key in PEERS)
    kept = {PEERS.get(key, key): value for key, value in kept.items()}
    left_out = PEERS.values() if named else ()
    return {key: value for key, value in kept.items() if key not in left_out}


def _variables(kind: type[BaseModel], environment: Mapping[str, str]) -> dict[str, Any]:
    """Values of the variables that are options of `kind`. UserError for SECTION__NAME that is no
    option anywhere.
    """
    ours = sorted(name for name in environment if name.startswith(PREFIX))
    kinds = [with_sections(each) for each in (*all_kinds(), kind)] if ours else []
    every = {key for each in kinds for key in options(each)}
    own = describe(with_sections(kind))  # `model` is a section of `run`, and a text of `contribute`
    # SWARM_NODE_MODEL may be a whole section, as JSON
    sections = {key.split(".")[0] for key in every if "." in key}
    found: dict[str, Any] = {}
    strange = []
    for name in ours:
        written, text = name.removeprefix(PREFIX).lower().replace("__", "."), environment[name]
        key = _present_name(written, kinds)
        if key not in every | sections:
            if "." in key:
                near = meant(key, sorted(every))
                advice = (
                    f"did you mean {_variable(near)}?" if near else "see swarm-node run --help-all"
                )
                raise UserError(f"{name} is not an option; {advice}")
            strange.append(name)
        elif text.startswith(OTHERS) and "." not in key:
            strange.append(name)
        elif key in kind.model_fields or key in own:
            found[key] = _read(options(kind).get(key), text)
    if strange:
        trouble = (
            f"{', '.join(strange)}: no option has this name, so it is ignored; correct it, "
            "unless it is "
            "for another program"
        )
        print(f"swarm-node: warning: {printable(trouble, 400)}", file=sys.stderr)
    return flatten(_nested(found))


def _present_name(key: str, kinds: Sequence[type[BaseModel]]) -> str:
    """The key, by its present name if one of these configurations has renamed it."""
    for kind in kinds:
        (key,) = by_present_names(kind, {key: None})
    return key


def _variable(key: str) -> str:
    return PREFIX + key.upper().replace(".", "__")


def _line(kind: type[BaseModel], problem: Any, given: Sequence[Source]) -> str:
    key = ".".join(part for part in problem["loc"] if isinstance(part, str))
    written = _written(key, given)
    if problem["type"] != "extra_forbidden":
        option = options(kind).get(key)
        secret = problem["type"] == UNSHOWN or (option is not None and option.is_a(Secret))
        return f"{written}: {wrong(problem, secret)}"
    near = meant(key, describe(kind))
    where = written.removesuffix(key) if written.endswith(key) else ""
    advice = f"did you mean {near!r}?" if near else "see `swarm-node run --help-all`"
    return f"{where}unknown key {printable(key)!r}; {advice}"


def _written(key: str, given: Sequence[Source]) -> str:
    """The name under which this key, or the section it is in, was given last."""
    for source in reversed(given):
        if key in source.names:
            return source.names[key]
    for source in reversed(given):
        for each, name in source.names.items():
            if each.startswith(f"{key}.") or key.startswith(f"{each}."):
                return name.removesuffix(each) + key if name.endswith(each) else name
    return key


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"a.b": 1} -> {"a": {"b": 1}}. A value in place of a section stays, to be refused later."""
    whole: dict[str, Any] = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        inner: Any = whole
        for part in path:
            inner = inner.setdefault(part, {}) if isinstance(inner, dict) else inner
        if isinstance(inner, dict) and not (value == {} and last in inner):
            inner[last] = value
    return whole
