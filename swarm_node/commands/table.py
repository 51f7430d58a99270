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


COMMANDS: Mapping[str, str] = {  # name -> module and the Command in it
    "run": "swarm_node.commands.run:RUN",
    "bootstrap": "swarm_node.commands.bootstrap:BOOTSTRAP",
    "pause": "swarm_node.commands.pause:PAUSE",
    "resume": "swarm_node.commands.pause:RESUME",
    "contribute": "swarm_node.extensions.contribute.start:CONTRIBUTE",
    "status": "swarm_node.commands.status:STATUS",
    "peers": "swarm_node.commands.status:PEERS",
    "page": "swarm_node.extensions.page.start:COMMAND",
    "plot": "swarm_node.extensions.simulation.plot_command:PLOT",
    "doctor": "swarm_node.commands.doctor:DOCTOR",
    "check": "swarm_node.commands.check:CHECK",
    "simulate": "swarm_node.extensions.simulation.command:SIMULATE",
    "attack": "swarm_node.extensions.simulation.command:ATTACK",
    "eval": "swarm_node.commands.evaluate:EVAL",
    "solve": "swarm_node.extensions.temporal_clue.command:SOLVE",
    "dataset": "swarm_node.extensions.dataset.command:DATASET",
    "export": "swarm_node.extensions.hub.export:EXPORT",
    "push": "swarm_node.extensions.hub.push:PUSH",
    "init": "swarm_node.commands.identity:INIT",
    "id": "swarm_node.commands.identity:ID",
    "backup": "swarm_node.commands.backup:BACKUP",
    "restore": "swarm_node.commands.backup:RESTORE",
    "completion": "swarm_node.commands.completion:COMPLETION",
}

LASTING = {"run", "bootstrap", "contribute", "simulate", "attack", "eval"}  # they go on when they have begun


def load(name: str) -> Command:
    """The command of this name, imported now."""
    module, _, constant = COMMANDS[name].partition(":")
    found: Any = getattr(importlib.import_module(module), constant)
    assert isinstance(found, Command)
    return found
