"""Which commands there are: a line of help for each, and where its code is.

The code of a command is imported when the command is called. Therefore this table names it by a
string, MODULE:NAME of its `Command`: `swarm-node status` loads neither torch nor what simulates.

A name of two words belongs to a group: `model eval`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from swarm_node.common import loading
from swarm_node.common.command import Command, ListedCommand, Purpose
from swarm_node.common.errors import UserError

# What the commands of a group are about
GROUPS: Mapping[str, str] = {
    "home": "identity, backup and restore",
    "model": "evaluate, export or upload a trained model",
    "swarm": "create, sign and check the manifest of a swarm",
    "task": "check how a file of questions is read and scored",
    "view": "draw figures of simulations",
}
# Commands of 0.1
RENAMED = {"attack": "simulate --attack KIND", "dataset": "task try", "init": "home id"}

_FILE, _HOME = "[CONFIG.toml] [--flags]", "[--home FOLDER]"
_PART, _LOOK, _TRY = Purpose

# In the order of the list of commands: by purpose, and behind the others those of a group together
COMMANDS: Mapping[str, ListedCommand] = {
    "run": ListedCommand(
        "swarm_node.commands.run:RUN",
        _FILE,
        "train a model here and share with the swarm (default)",
        _PART,
        lasting=True,
    ),
    "bootstrap": ListedCommand(
        "swarm_node.commands.bootstrap:BOOTSTRAP",
        "[--flags]",
        "run an entry point that helps nodes find each other",
        _PART,
        lasting=True,
    ),
    "pause": ListedCommand(
        "swarm_node.commands.status:PAUSE",
        _HOME,
        "pause the node after its current round",
        _PART,
    ),
    "resume": ListedCommand(
        "swarm_node.commands.status:RESUME", _HOME, "continue after a pause", _PART
    ),
    "contribute": ListedCommand(
        "swarm_node.contribute.start:CONTRIBUTE",
        "--api URL --model NAME",
        "share completions of a model behind an API, without training",
        _PART,
        lasting=True,
    ),
    "invite": ListedCommand(
        "swarm_node.commands.invite:INVITE", _HOME, "print a code that lets others join", _PART
    ),
    "join": ListedCommand(
        "swarm_node.commands.join:JOIN",
        "CODE [--flags]",
        "run in the swarm that a code belongs to",
        _PART,
        lasting=True,
    ),
    "home backup": ListedCommand(
        "swarm_node.home.backup:BACKUP",
        "FILE [--home FOLDER]",
        "save the identity and the newest checkpoint in one file",
        _PART,
    ),
    "home id": ListedCommand(
        "swarm_node.home.backup:ID",
        _HOME,
        "print the identity of a node, and make one if there is none",
        _PART,
    ),
    "home restore": ListedCommand(
        "swarm_node.home.backup:RESTORE",
        "FILE [--home FOLDER]",
        "make a home folder from a backup",
        _PART,
    ),
    "swarm admit": ListedCommand(
        "swarm_node.commands.invite:ADMIT",
        "[FILE] --key KEY",
        "print a code that lets others into a private swarm",
        _PART,
    ),
    "swarm create": ListedCommand(
        "swarm_node.swarm.signing:CREATE",
        "FILE --flags",
        "write the first manifest of a swarm",
        _PART,
    ),
    "swarm key": ListedCommand(
        "swarm_node.swarm.signing:KEY",
        "[FILE]",
        "print the id of a signer, and make the key if there is none",
        _PART,
    ),
    "swarm next": ListedCommand(
        "swarm_node.swarm.signing:NEXT",
        "FILE [--flags]",
        "renew or change a manifest",
        _PART,
    ),
    "swarm show": ListedCommand(
        "swarm_node.swarm.signing:SHOW",
        "FILE",
        "print the newest manifest, and what changed",
        _PART,
    ),
    "swarm sign": ListedCommand(
        "swarm_node.swarm.signing:SIGN",
        "FILE --key KEY",
        "sign the newest manifest of a file",
        _PART,
    ),
    "swarm verify": ListedCommand(
        "swarm_node.swarm.signing:VERIFY",
        "FILE --network ID",
        "check the signatures of all manifests in a file",
        _PART,
    ),
    "status": ListedCommand(
        "swarm_node.commands.status:STATUS",
        "[--json]",
        "show the state of the running node (exit code 0 if healthy)",
        _LOOK,
    ),
    "peers": ListedCommand(
        "swarm_node.commands.status:PEERS", "[--json]", "list the peers of the running node", _LOOK
    ),
    "doctor": ListedCommand(
        "swarm_node.commands.doctor:DOCTOR",
        _FILE,
        "find out why a node cannot train or connect",
        _LOOK,
    ),
    "page": ListedCommand(
        "swarm_node.commands.page:COMMAND",
        "[HOME] [--flags]",
        "open the dashboard in a browser",
        _LOOK,
    ),
    "view plot": ListedCommand(
        "swarm_node.simulation.plot_command:PLOT",
        "RUN ... [--out FOLDER]",
        "draw figures of simulations",
        _LOOK,
    ),
    "check": ListedCommand(
        "swarm_node.commands.check:CHECK",
        _FILE,
        "show what a configuration will do on this machine",
        _TRY,
    ),
    "ask": ListedCommand(
        "swarm_node.commands.ask:ASK",
        "[TEXT] [--flags]",
        "compare the model's answers before and after training",
        _TRY,
        lasting=True,
    ),
    "simulate": ListedCommand(
        "swarm_node.simulation.main:SIMULATE",
        _FILE,
        "simulate a swarm on this machine",
        _TRY,
        lasting=True,
    ),
    "model eval": ListedCommand(
        "swarm_node.commands.evaluate:EVAL",
        "[NAME|FOLDER] [--flags]",
        "measure the accuracy of a model on held-out questions",
        _TRY,
        lasting=True,
    ),
    "model export": ListedCommand(
        "swarm_node.hub.export:EXPORT", "DIR [--flags]", "save a trained model as a folder", _TRY
    ),
    "model push": ListedCommand(
        "swarm_node.hub.push:PUSH",
        "NAME/MODEL [--flags]",
        "upload a trained model to the Hugging Face hub",
        _TRY,
    ),
    "task try": ListedCommand(
        "swarm_node.commands.task_try:TRY",
        "FILE [--flags]",
        "check how a file of questions is read and scored",
        _TRY,
    ),
}


def group(name: str) -> dict[str, ListedCommand]:
    """The commands of the group of this name."""
    return {each: entry for each, entry in COMMANDS.items() if each.startswith(f"{name} ")}


def find(words: Sequence[str]) -> tuple[str, ListedCommand, list[str]]:
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
        raise UserError(f"{name} was renamed: it is now swarm-node {RENAMED.get(name, near)}")
    advice = f"did you mean {near}?" if near else "there is none like it;"
    raise UserError(f"unknown command {printable(repr(name), 60)}: {advice} see swarm-node --help")


def load(entry: ListedCommand) -> Command:
    """The code of a command, imported now."""
    found: Any = loading.load(entry.place)
    assert isinstance(found, Command)
    return found
