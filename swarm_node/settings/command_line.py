"""From what a user writes to the configuration of a command. A mistake ends in one line.

*Which place beats which.* Values come from five places, here with the weakest first:

    default      what the class of the configuration says
    home         options.toml in the home, which `join` wrote; it may be a stranger's (of_home.py)
    file         CONFIG.toml, by its path or by the name of a shipped one (files.py)
    environment  SWARM_NODE_TRAINING__LEARNING_RATE=1e-4 (variables.py)
    flag         --training.learning-rate 1e-4 (flags.py)

A stronger place replaces the value of one option, never a whole section. A list replaces a list. A
script gives a file and keywords, which take the place of flags.

*What a value is.* Each place is read into an `OptionSource`, which holds values by their keys. A
text stays a text there: only the configuration turns it into a number, a path or a list. So a
mistake reads the same wherever the option stands.

*What a line of a mistake says.* Pydantic names the key that is wrong. The strongest source that has
this key knows how the user wrote it: as a flag, a variable, or a key of a file (`written`).
`mistakes.py` says what is wrong, and which name was probably meant. What is wrong before there is a
value, such as a flag that no option has, is told by the module that reads that place.

docs/explanation/options.md says why no library does this.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from swarm_node.common.errors import UserError, printable
from swarm_node.settings import programs
from swarm_node.settings.contribute import ContributeConfig
from swarm_node.settings.files import read_options, shipped
from swarm_node.settings.flags import CONFIG_FILE, flags_and_words, parse
from swarm_node.settings.help_page import help_page
from swarm_node.settings.mistakes import in_one_line, key_of, told, warn
from swarm_node.settings.of_home import read_home, warn_of_home
from swarm_node.settings.options import by_present_names, flatten, options
from swarm_node.settings.plugged import empty_sections
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.settings.sources import OptionSource, name_as_given, nested
from swarm_node.settings.variables import read_variables

# The configurations of all commands that take variables: one may be meant for any of them
KINDS: tuple[type[BaseModel], ...] = (
    programs.NodeConfig,
    programs.CheckConfig,
    programs.DoctorConfig,
    programs.ArchiveConfig,
    programs.BootstrapConfig,
    programs.EvaluationConfig,
    programs.AskConfig,
    SimulationConfig,
    ContributeConfig,
)
C = TypeVar("C", bound=BaseModel)


def from_command_line(
    kind: type[C], argv: Sequence[str], program: str, flags_only: bool = False, first: str = ""
) -> C:
    """A configuration from `[FILE.toml] [--flags]`. With --help it prints all options, and exits.

    `first` is the key that the first word without dashes belongs to, in place of a file.
    """
    if "--help" in flags_and_words(argv)[0]:
        print(help_page(kind, program), end="")
        raise SystemExit(0)
    file, given = sources_of(kind, argv, program, flags_only, first)
    return _combined(kind, given, file)


def from_python(kind: type[C], file: Path | str | None, *values: Mapping[str, Any]) -> C:
    """A configuration from a file or a shipped one's name, and values: later ones win. UserError,
    in one line.
    """
    file = shipped(Path(file)) if file else None
    stored = flatten(read_options(file)) if file else {}
    keywords = [OptionSource("flag", by_present_names(kind, flatten(given))) for given in values]
    given = [OptionSource("file", by_present_names(kind, stored)), *keywords]
    return _combined(kind, [read_home(kind, given), *given], file)


def sources_of(
    kind: type[BaseModel],
    argv: Sequence[str],
    program: str,
    flags_only: bool = False,
    first: str = "",
) -> tuple[Path | None, list[OptionSource]]:
    """The configuration file, if one is named, and all sources of options. A later source overrides
    those before it. `from_command_line` explains the arguments.
    """
    takes = "" if flags_only else CONFIG_FILE
    if first:
        takes = first.split(".")[-1].upper()
    word, flags = parse(kind, argv, program, takes)
    file = shipped(Path(word)) if word and not first else None
    stored = flatten(read_options(file)) if file else {}
    names = by_present_names(kind, {key: f"{file}: {key}" for key in stored})
    given = [
        OptionSource("file", by_present_names(kind, stored), names),
        read_variables(kind, KINDS, os.environ),
        flags,
    ]
    given.insert(0, read_home(kind, given))
    if word and first:
        if first in flags.values:
            raise UserError(
                f"{flags.names[first]} is given twice: {printable(word)!r} means the same option"
            )
        flags.values[first], flags.names[first] = word, takes
    return file, given


def _combined(kind: type[C], given: Sequence[OptionSource], file: Path | None) -> C:
    """The configuration. UserError, one line, for what is wrong in it. Plug-ins may be files beside
    `file`.
    """
    warn_of_home(kind, given)
    _warn_of_what_goes(kind, given)
    values: dict[str, Any] = {}
    for source in given:
        values |= source.values
    whole = {**empty_sections(kind), **nested(values)}
    folder = file.expanduser().parent if file else Path()
    try:
        return kind.model_validate(whole, context={"folder": folder})
    except ValidationError as error:
        problems = error.errors(include_url=False)
        lines = (told(kind, problem, name_as_given(key_of(problem), given)) for problem in problems)
        raise UserError(in_one_line(lines)) from error


def _warn_of_what_goes(kind: type[BaseModel], given: Sequence[OptionSource]) -> None:
    """Warns of options that go with the next release, by Field(deprecated="what to use")."""
    known = options(kind)
    for source in given:
        for key in known.keys() & source.values.keys():
            if instead := known[key].about.deprecated:
                warn(f"{source.names.get(key, key)} will be removed in the next release; {instead}")
