"""What a command is made of, and how the list of commands shows it. Imports nothing heavy: every
list loads it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Purpose(Enum):
    """What a user wants to do, as a heading of the list of commands and in its order."""

    TAKE_PART = "take part in a swarm"
    LOOK = "see how it goes"
    TRY = "try, measure, use the model"


@dataclass(frozen=True)
class Command:
    """What a command is made of; it stands at the end of the module of its command."""

    options: Callable[..., Any]  # the section that holds all its options: --help-all shows them
    page: str  # those most used, on a screen: --help shows it
    # Takes the arguments behind the name; UserError for a mistake in them
    do: Callable[[list[str]], None]


@dataclass(frozen=True)
class ListedCommand:
    """A command in the list of commands."""

    place: str  # MODULE:NAME of its `Command`
    arguments: str  # as `swarm-node --help` shows them behind the name
    summary: str  # what the command does, in some words
    purpose: Purpose
    # Whether it runs on: then `loading ...` is shown where its import takes long
    lasting: bool = False
