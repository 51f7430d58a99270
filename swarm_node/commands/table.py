"""Which commands there are: a line of help for each, and where its code is.

The code of a command is imported when the command is called. Therefore this table names it by a
string, MODULE:NAME of its `Command`: `swarm-node status` loads neither torch nor what simulates.

A name of two words belongs to a group: `model eval`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from swarm_node.common import loading
from swarm_node.common.command import Command, Entry, Purpose
from swarm_node.common.errors import UserError

# What the commands of a group are about
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
_PART, _LOOK, _TRY = Purpose

# In the order of the list of commands: by purpose, and behind the others those of a group together
COMMANDS: Mapping[str, Entry] = {
    "run": Entry(
        "swarm_node.commands.run:RUN",
        _FILE,
        "train here, publish and collect",
        _PART,
        lasting=True,
    ),
    "bootstrap": Entry(
        "swarm_node.commands.bootstrap:BOOTSTRAP",
        "[--flags]",
        "lets others in; trains nothing",
        _PART,
        lasting=True,
    ),
    "pause": Entry(
        "swarm_node.commands.status:PAUSE",
        _HOME,
        "the running node rests after its round",
        _PART,
    ),
    "resume": Entry("swarm_node.commands.status:RESUME", _HOME, "it goes on", _PART),
    "contribute": Entry(
        "swarm_node.contribute.start:CONTRIBUTE",
        "--api URL --model NAME",
        "give completions of an API, train nothing",
        _PART,
        lasting=True,
    ),
    "invite": Entry(
        "swarm_node.commands.invite:INVITE", _HOME, "a code with which others join", _PART
    ),
    "join": Entry(
        "swarm_node.commands.join:JOIN",
        "CODE [--flags]",
        "run, in the swarm of a code",
        _PART,
        lasting=True,
    ),
    "home backup": Entry(
        "swarm_node.home.backup:BACKUP",
        "FILE [--home FOLDER]",
        "identity and newest checkpoint, in one file",
        _PART,
    ),
    "home id": Entry(
        "swarm_node.home.backup:ID", _HOME, "show this node's identity, made if need be", _PART
    ),
    "home restore": Entry(
        "swarm_node.home.backup:RESTORE", "FILE [--home FOLDER]", "a home from it", _PART
    ),
    "swarm admit": Entry(
        "swarm_node.commands.invite:ADMIT",
        "[FILE] --key KEY",
        "a code into a private swarm",
        _PART,
    ),
    "swarm create": Entry(
        "swarm_node.swarm.signing:CREATE",
        "FILE --flags",
        "a swarm's first card, to be signed",
        _PART,
    ),
    "swarm key": Entry(
        "swarm_node.swarm.signing:KEY",
        "[FILE]",
        "a signer's id; the key is made if need be",
        _PART,
    ),
    "swarm next": Entry(
        "swarm_node.swarm.signing:NEXT",
        "FILE [--flags]",
        "the next one: renewed, changed",
        _PART,
    ),
    "swarm show": Entry(
        "swarm_node.swarm.signing:SHOW", "FILE", "what the newest says, and changes", _PART
    ),
    "swarm sign": Entry(
        "swarm_node.swarm.signing:SIGN",
        "FILE --key KEY",
        "adds a signature to the newest",
        _PART,
    ),
    "swarm verify": Entry(
        "swarm_node.swarm.signing:VERIFY", "FILE --network ID", "whether all cards hold", _PART
    ),
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
    "page": Entry(
        "swarm_node.commands.page:COMMAND", "[HOME] [--flags]", "a node in a browser", _LOOK
    ),
    "view plot": Entry(
        "swarm_node.simulation.plot_command:PLOT",
        "RUN ... [--out FOLDER]",
        "figures of simulations, as PNG and SVG",
        _LOOK,
    ),
    "check": Entry(
        "swarm_node.commands.check:CHECK", _FILE, "what a configuration means here", _TRY
    ),
    "ask": Entry(
        "swarm_node.commands.ask:ASK",
        "[TEXT] [--flags]",
        "what the model says, before and now",
        _TRY,
        lasting=True,
    ),
    "simulate": Entry(
        "swarm_node.simulation.main:SIMULATE",
        _FILE,
        "many nodes here: what does sharing bring?",
        _TRY,
        lasting=True,
    ),
    "model eval": Entry(
        "swarm_node.commands.evaluate:EVAL",
        "[NAME|FOLDER] [--flags]",
        "accuracy of a model on held-out questions",
        _TRY,
        lasting=True,
    ),
    "model export": Entry(
        "swarm_node.hub.export:EXPORT", "DIR [--flags]", "a trained model as a folder", _TRY
    ),
    "model push": Entry(
        "swarm_node.hub.push:PUSH",
        "NAME/MODEL [--flags]",
        "a trained model to the Hugging Face hub",
        _TRY,
    ),
    "task try": Entry(
        "swarm_node.commands.task_try:TRY",
        "FILE [--flags]",
        "how a file of questions is read and scored",
        _TRY,
    ),
}


def group(name: str) -> dict[str, Entry]:
    """The commands of the group of this name."""
    return {each: entry for each, entry in COMMANDS.items() if each.startswith(f"{name} ")}


def find(words: Sequence[str]) -> tuple[str, Entry, list[str]]:
    """The name and entry of the command that these words begin with, and the words behind its name.
    UserError, with the name that was probably meant, where there is no such command.
    """
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in COMMANDS:
            return name, COMMANDS[name], list(words[length:])
    from swarm_node.common.errors import printable

    # Only here: a command that exists starts sooner without it
    from swarm_node.common.nearest import meant

    name = " ".join(words[:2]) if group(words[0]) else words[0]
    near = meant(name.replace(" ", "."), [each.replace(" ", ".") for each in COMMANDS]).replace(
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
