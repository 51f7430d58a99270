"""One path for options, wherever they come from: defaults < file < environment < flags, and one line for a mistake.

The line names the option as the user wrote it: a flag, a variable, or a key of a file.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from swarm_node.common.errors import UserError
from swarm_node.common.printable import printable
from swarm_node.settings import contribute, flags, programs, simulation
from swarm_node.settings.extended import with_sections
from swarm_node.settings.help_page import help_page
from swarm_node.settings.mistakes import meant, wrong
from swarm_node.settings.secret import UNSHOWN, Secret
from swarm_node.settings.sources import describe, flatten, known_plug_ins, located, read_file

PREFIX = "SWARM_NODE_"  # SWARM_NODE_TRAINING__LEARNING_RATE=1e-4 sets training.learning_rate
CONFIG_FILE = "CONFIG.toml"  # what the first word without dashes is, where a command takes such a file
KINDS = (
    programs.NodeConfig,
    programs.CheckConfig,
    programs.DoctorConfig,
    programs.ArchiveConfig,
    contribute.ContributeConfig,
    programs.BootstrapConfig,
    programs.EvaluationConfig,
    programs.AskConfig,
    simulation.SimulationConfig,
)  # a variable may be meant for any of them
OTHERS = ("tcp://", "udp://", "sctp://")  # Kubernetes sets SWARM_NODE_PORT so for a service of the name swarm-node
C = TypeVar("C", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Source:
    """Values from one place, by their keys."""

    kind: str  # "file", "environment" or "flag"
    values: Mapping[str, Any]
    names: Mapping[str, str]  # of keys, as the user wrote them


def from_command_line(kind: type[C], argv: Sequence[str], program: str, flags_only: bool = False, first: str = "") -> C:
    """A configuration from `[FILE.toml] [--flags]`. With --help it prints all options, and exits.

    It has the sections that extensions registered for it. `first` is the key that the first word without dashes belongs
    to, in place of a file.
    """
    kind = with_sections(kind)
    if "--help" in argv:
        print(help_page(with_sections(kind), program), end="")
        raise SystemExit(0)
    file, given = sources_of(kind, argv, program, flags_only, first)
    return known_plug_ins(located(combined(kind, given), file.expanduser().parent if file else Path()))


def sources_of(
    kind: type[BaseModel], argv: Sequence[str], program: str, flags_only: bool = False, first: str = ""
) -> tuple[Path | None, list[Source]]:
    """The configuration file, if one is named, and all that is given. See `from_command_line`."""
    kind = with_sections(kind)
    takes = first.split(".")[-1].upper() if first else "" if flags_only else CONFIG_FILE
    words = flags.parse(kind, argv, program, takes)
    file = Path(words.first[0]) if words.first and not first else None
    return file, sources(kind, file, os.environ, words, first, warn=_warn)


def resolve(kind: type[C], file: Path | None, environment: Mapping[str, str]) -> C:
    """Without flags: defaults, then the file, then environment variables."""
    kind = with_sections(kind)
    return combined(kind, sources(kind, file, environment))


def sources(
    kind: type[BaseModel],
    file: Path | None,
    environment: Mapping[str, str],
    words: flags.Words | None = None,
    first: str = "",
    warn: Callable[[str], None] = lambda text: None,
) -> list[Source]:
    """All that is given, the weakest first. UserError for a file that cannot be read, and a variable that is none."""
    found = []
    if file:
        values = flatten(read_file(file))
        found.append(Source("file", values, {key: f"{file}: {key}" for key in values}))
    values = _variables(kind, environment, warn)
    found.append(Source("environment", values, {key: _variable(key) for key in values}))
    if words is not None:
        values = {key: _parsed(kind, key, value) for key, value in words.values.items()}
        names = dict(words.flags)
        if first and words.first:
            if first in values:
                raise UserError(f"{names[first]} is given twice: {printable(words.first[0])!r} is one, too")
            values[first], names[first] = words.first[0], first.split(".")[-1].upper()
        found.append(Source("flag", values, names))
    return found


def combined(kind: type[C], given: Sequence[Source]) -> C:
    """The configuration. UserError, one line, for what is wrong in it."""
    values: dict[str, Any] = {}
    for source in given:
        values |= source.values
    try:
        return kind.model_validate(_nested(values))
    except ValidationError as error:
        lines = [_line(kind, problem, given) for problem in error.errors(include_url=False)]
        raise UserError("; ".join(list(dict.fromkeys(lines))[:3])) from error


def origins(given: Sequence[Source]) -> dict[str, str]:
    """Where each key was set last: "file", "environment" or "flag"."""
    return {key: source.kind for source in given for key in source.values}


def _line(kind: type[BaseModel], problem: Any, given: Sequence[Source]) -> str:
    key = ".".join(part for part in problem["loc"] if isinstance(part, str))
    written = _written(key, given)
    if problem["type"] != "extra_forbidden":
        secret = problem["type"] == UNSHOWN or _is_secret(_annotation(kind, key))
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


def _variables(kind: type[BaseModel], environment: Mapping[str, str], warn: Callable[[str], None]) -> dict[str, Any]:
    """Values of the variables that are options of `kind`. UserError for SECTION__NAME that is no option anywhere."""
    ours = sorted(name for name in environment if name.startswith(PREFIX))
    every = {key for each in (*KINDS, kind) for key in describe(with_sections(each))} if ours else set()
    own = describe(with_sections(kind))  # `model` is a section of `run`, and a text of `contribute`
    sections = {key.split(".")[0] for key in every if "." in key}  # SWARM_NODE_MODEL may be a whole section, as JSON
    found: dict[str, Any] = {}
    strange = []
    for name in ours:
        key, text = name.removeprefix(PREFIX).lower().replace("__", "."), environment[name]
        if key not in every | sections:
            if "." in key:
                near = meant(key, sorted(every))
                advice = f"did you mean {_variable(near)}?" if near else "see swarm-node run --help-all"
                raise UserError(f"{name} is no option; {advice}")
            strange.append(name)
        elif text.startswith(OTHERS) and "." not in key:
            strange.append(name)
        elif key in kind.model_fields or key in own:
            found[key] = _parsed(kind, key, text)
    if strange:
        warn(f"{', '.join(strange)}: no option is called so, left alone")
    return flatten(_nested(found))


def _variable(key: str) -> str:
    return PREFIX + key.upper().replace(".", "__")


def _parsed(kind: type[BaseModel], key: str, value: Any) -> Any:
    """JSON where it is JSON (a list, a number, null), unless the option is a text: a swarm may be called 12."""
    if not isinstance(value, str) or _is_text(_annotation(kind, key)):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _annotation(kind: type[BaseModel], key: str) -> Any:
    *path, last = key.split(".")
    for part in path:
        inner = kind.model_fields[part].annotation if part in kind.model_fields else None
        if not isinstance(inner, type) or not issubclass(inner, BaseModel):
            return None
        kind = inner
    return kind.model_fields[last].annotation if last in kind.model_fields else None


def _is_text(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, (str, Secret))


def _is_secret(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Secret)


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"a.b": 1} -> {"a": {"b": 1}}. What stands where a section belongs stays, to be found wrong."""
    whole: dict[str, Any] = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        inner: Any = whole
        for part in path:
            inner = inner.setdefault(part, {}) if isinstance(inner, dict) else inner
        if isinstance(inner, dict) and not (value == {} and last in inner):
            inner[last] = value
    return whole


def _warn(text: str) -> None:
    print(f"swarm-node: warning: {printable(text, 400)}", file=sys.stderr)
