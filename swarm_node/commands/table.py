"""Which commands there are: a line of help for each, and the place of its code.

The commands of the core stand here. An extension registers its own as entry points of the group `swarm_node.commands`,
each an `Entry` in a module that imports little else. The code of a command is imported when the command is called.
A command of the core is found without asking for entry points, which would take 0.1 seconds.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from swarm_node.commands.command import Command, Entry, Purpose
from swarm_node.common import loading
from swarm_node.common.errors import UserError

GROUP = "commands"  # of entry points: swarm_node.commands


_FILE, _HOME = "[CONFIG.toml] [--flags]", "[--home FOLDER]"
_PART, _LOOK, _SET_UP = Purpose.TAKE_PART, Purpose.LOOK, Purpose.SET_UP
CORE: Mapping[str, Entry] = {
    "run": Entry("swarm_node.commands.run:RUN", _FILE, "train here, publish and collect", _PART, lasting=True),
    "bootstrap": Entry(
        "swarm_node.commands.bootstrap:BOOTSTRAP",
        "[--flags]",
        "a bootstrap and relay node; does not train",
        _PART,
        lasting=True,
    ),
    "pause": Entry("swarm_node.commands.pause:PAUSE", _HOME, "the running node rests after its round", _PART),
    "resume": Entry("swarm_node.commands.pause:RESUME", _HOME, "it goes on", _PART),
    "status": Entry(
        "swarm_node.commands.status:STATUS", "[--json]", "how the running node is (exit code 0: well)", _LOOK
    ),
    "peers": Entry("swarm_node.commands.status:PEERS", "[--json]", "whom the running node knows", _LOOK),
    "doctor": Entry("swarm_node.commands.doctor:DOCTOR", _FILE, "what hinders training or connecting", _LOOK),
    "check": Entry("swarm_node.commands.check:CHECK", _FILE, "what a configuration means here", _LOOK),
    "eval": Entry(
        "swarm_node.commands.evaluate:EVAL",
        "[NAME|FOLDER] [--flags]",
        "accuracy of a model on held-out questions",
        Purpose.TRY,
        lasting=True,
    ),
    "init": Entry("swarm_node.commands.identity:INIT", _HOME, "make this node's identity (run does so too)", _SET_UP),
    "id": Entry("swarm_node.commands.identity:ID", _HOME, "show this node's identity", _SET_UP),
    "backup": Entry(
        "swarm_node.commands.backup:BACKUP", f"FILE {_HOME}", "identity and newest checkpoint, in one file", _SET_UP
    ),
    "restore": Entry("swarm_node.commands.backup:RESTORE", f"FILE {_HOME}", "a home from it", _SET_UP),
}


def entry_of(name: str) -> Entry | None:
    """The command of this name; None if there is none. UserError if its extension cannot be loaded."""
    if name in CORE:
        return CORE[name]
    from swarm_node.common import plugins  # here and below: it imports importlib.metadata

    if name not in plugins.registered(GROUP):
        return None
    found = plugins.load(GROUP, name)
    assert isinstance(found, Entry)
    return found


@cache
def entries() -> Mapping[str, Entry]:
    """All commands by purpose, for each the core's first. A command that cannot be loaded is left out: called by its
    name, it says why."""
    from swarm_node.common import plugins

    found = dict(CORE)
    for name in sorted(plugins.registered(GROUP)):
        with suppress(UserError):
            if entry := entry_of(name):
                found[name] = entry
    order = list(Purpose)
    return dict(sorted(found.items(), key=lambda item: order.index(item[1].purpose)))


def load(entry: Entry) -> Command:
    """The code of a command, imported now."""
    found: Any = loading.load(entry.place)
    assert isinstance(found, Command)
    return found
