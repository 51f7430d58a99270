"""Which commands there are: a line of help for each, and the place of its code.

The commands of the core stand here. An extension registers its own as entry points of the group
`swarm_node.commands`, each an `Entry` in a module that imports little else. The code of a command
is imported when the command is called. A command of the core is found without asking for entry
points, which would take 0.1 seconds.

A name of two words belongs to a group: `model eval`. Its entry point is called `model.eval`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from swarm_node.commands.command import Command, Entry, Purpose
from swarm_node.common import loading
from swarm_node.common.errors import UserError

ENTRY_POINTS = "commands"  # of the group swarm_node.commands
# What the commands of a group are about; an extension may have a group of its own
GROUPS: Mapping[str, str] = {
    "home": "a node's identity, and a copy of its home",
    "model": "how good it is; as a folder; to the hub",
    "swarm": "its signed card",
    "task": "what a file asks",
    "view": "figures of runs, as PNG and SVG",
}
# Commands of 0.1
RENAMED = {"attack": "simulate --attack KIND", "dataset": "task try", "init": "home id"}

_FILE, _HOME = "[CONFIG.toml] [--flags]", "[--home FOLDER]"
_PART, _LOOK = Purpose.TAKE_PART, Purpose.LOOK
CORE: Mapping[str, Entry] = {
    "run": Entry(
        "swarm_node.commands.run:RUN", _FILE, "train here, publish and collect", _PART, lasting=True
    ),
    "bootstrap": Entry(
        "swarm_node.commands.bootstrap:BOOTSTRAP",
        "[--flags]",
        "lets others in; trains nothing",
        _PART,
        lasting=True,
    ),
    "pause": Entry(
        "swarm_node.commands.status:PAUSE", _HOME, "the running node rests after its round", _PART
    ),
    "resume": Entry("swarm_node.commands.status:RESUME", _HOME, "it goes on", _PART),
    "status": Entry(
        "swarm_node.commands.status:STATUS",
        "[--json]",
        "how the running node is (exit code 0: well)",
        _LOOK,
    ),
    "peers": Entry(
        "swarm_node.commands.status:PEERS", "[--json]", "whom the running node knows", _LOOK
    ),
    "doctor": Entry(
        "swarm_node.commands.doctor:DOCTOR", _FILE, "what hinders training or connecting", _LOOK
    ),
    "check": Entry(
        "swarm_node.commands.check:CHECK", _FILE, "what a configuration means here", Purpose.TRY
    ),
    "model eval": Entry(
        "swarm_node.commands.evaluate:EVAL",
        "[NAME|FOLDER] [--flags]",
        "accuracy of a model on held-out questions",
        Purpose.TRY,
        lasting=True,
    ),
}


def entry_of(name: str) -> Entry | None:
    """The command of this name; None if there is none. UserError if its extension cannot be
    loaded.
    """
    if name in CORE:
        return CORE[name]
    from swarm_node.common import plugins  # here and below: it imports importlib.metadata

    point = name.replace(" ", ".")
    if point not in plugins.registered(ENTRY_POINTS):
        return None
    found = plugins.load(ENTRY_POINTS, point)
    assert isinstance(found, Entry)
    return found


@cache
def entries() -> Mapping[str, Entry]:
    """All commands, by purpose: for each, the core's come first, and those of a group stand
    together behind the others. A command that cannot be loaded is left out; a user who calls it is
    told why.
    """
    from swarm_node.common import plugins

    found = dict(CORE)
    for point in sorted(plugins.registered(ENTRY_POINTS)):
        with suppress(UserError):
            name = point.replace(".", " ")
            if entry := entry_of(name):
                found[name] = entry
    purposes = list(Purpose)

    def place(item: tuple[str, Entry]) -> tuple[int, str]:
        group, space, _ = item[0].partition(" ")
        return purposes.index(item[1].purpose), group if space else ""

    return dict(sorted(found.items(), key=place))


def group(name: str) -> dict[str, Entry]:
    """The commands of the group of this name."""
    return {each: entry for each, entry in entries().items() if each.startswith(f"{name} ")}


def find(words: Sequence[str]) -> tuple[str, Entry, list[str]]:
    """The name and entry of the command that these words begin with, and the words behind its name.
    UserError, with the name that was probably meant, where there is no such command.
    """
    found = {" ".join(words[:2]): words[2:], words[0]: words[1:]}
    for name in sorted(found, key=CORE.__contains__, reverse=True):
        if entry := entry_of(name):
            return name, entry, list(found[name])
    from swarm_node.common.errors import printable

    # Only here: a command that exists starts sooner without it
    from swarm_node.settings.options import meant

    name = " ".join(words[:2]) if group(words[0]) else words[0]
    near = meant(name.replace(" ", "."), [each.replace(" ", ".") for each in entries()]).replace(
        ".", " "
    )
    if name in RENAMED or near.endswith(f" {name}"):
        raise UserError(f"{name} is gone: it is now swarm-node {RENAMED.get(name, near)}")
    advice = f"did you mean {near}?" if near else "there is none like it;"
    raise UserError(f"unknown command {printable(repr(name), 60)}: {advice} see swarm-node --help")


def load(entry: Entry) -> Command:
    """The code of a command, imported now."""
    found: Any = loading.load(entry.place)
    assert isinstance(found, Command)
    return found
