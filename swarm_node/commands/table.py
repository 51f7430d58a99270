"""The commands. Each is imported when it is called, so that the list of them, and a mistake in a name, cost no time."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Command:
    """What a command is made of; it stands at the end of the module of its command."""

    options: Callable[..., Any]  # whose arguments are all its options, as tyro reads them: --help-all shows them
    page: str  # those most used, on a screen: --help shows it
    do: Callable[[list[str]], None]  # takes the arguments behind the name; UserError for a mistake in them


COMMANDS: Mapping[str, str] = {  # name -> module in commands/ and the Command in it
    "run": "run.start:RUN",
    "bootstrap": "bootstrap:BOOTSTRAP",
    "pause": "pause:PAUSE",
    "resume": "pause:RESUME",
    "contribute": "contribute.start:CONTRIBUTE",
    "status": "status:STATUS",
    "peers": "status:PEERS",
    "page": "page.start:COMMAND",
    "plot": "plot:PLOT",
    "doctor": "doctor:DOCTOR",
    "check": "check:CHECK",
    "simulate": "simulate:SIMULATE",
    "attack": "simulate:ATTACK",
    "eval": "evaluate:EVAL",
    "solve": "solve:SOLVE",
    "dataset": "dataset:DATASET",
    "export": "hub.export:EXPORT",
    "push": "hub.push:PUSH",
    "init": "identity:INIT",
    "id": "identity:ID",
    "backup": "backup:BACKUP",
    "restore": "backup:RESTORE",
    "completion": "completion:COMPLETION",
}

LASTING = {"run", "bootstrap", "contribute", "simulate", "attack", "eval"}  # they go on when they have begun


def load(name: str) -> Command:
    """The command of this name, imported now."""
    module, _, constant = COMMANDS[name].partition(":")
    found: Any = getattr(importlib.import_module(f"swarm_node.commands.{module}"), constant)
    assert isinstance(found, Command)
    return found
