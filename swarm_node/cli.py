"""The command line. A first argument that is a flag, or none, means `run`. Never prompts.

Commands are imported when they are called, so that `--help` and `id` answer at once.
"""

import atexit
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from swarm_node.common.errors import UserError

USAGE = """\
swarm-node: a small language model that learns together with others by sharing the text of its attempts.

usage: swarm-node [COMMAND] [arguments]     (no command means run)

  run [CONFIG.toml] [--peers MULTIADDR ...] [--flags]
                                  train here and share; goes on by itself from its home folder
  simulate [CONFIG.toml] [--flags]  many nodes on this machine: what does sharing bring?
  attack [--kind stealth] [--share 0.25] [--defence regroup clip] [--flags]   simulate with hostile nodes
  eval FOLDER [--flags]           accuracy of a model on held-out questions
  solve SIZE|FILE.json [--index]  the solution of a Temporal Clue puzzle, found by CP-SAT
  bootstrap [--port 31330] [--home FOLDER]   an entry and relay node for others; does not train
  status [--home FOLDER] [--json]  how the running node is; exit code 0 only when it is healthy
  peers [--home FOLDER] [--json]  whom the running node knows
  doctor [CONFIG.toml] [--flags]  what keeps this node from training or sharing, and what to do about it
  init [--home FOLDER]            make this node's identity (done by run too)
  id [--home FOLDER]              show this node's identity
  check [CONFIG.toml]             show every option, its value, where it comes from and what it means

Options come from defaults < CONFIG.toml < environment (SWARM_NODE_TRAINING__LEARNING_RATE=1e-4) < flags.
`swarm-node COMMAND --help` lists all options of a command."""

COMMANDS: Mapping[str, str] = {  # name -> function of a module in commands/, which takes the arguments behind the name
    "run": "run.start:command",
    "simulate": "simulate:simulate_command",
    "attack": "simulate:attack_command",
    "eval": "evaluate:command",
    "solve": "solve:command",
    "bootstrap": "bootstrap:command",
    "status": "status:status_command",
    "peers": "status:peers_command",
    "doctor": "doctor:command",
    "init": "identity:init",
    "id": "identity:show_id",
    "check": "check:command",
}


def main() -> None:
    """Entry point: exit code 0, 2 for a user's mistake, 130 when interrupted."""
    leave(outcome(sys.argv[1:]))


def outcome(argv: Sequence[str]) -> int:
    """Exit code of a command. SystemExit where the command has one of its own."""
    try:
        dispatch(argv)
        sys.stdout.flush()
    except UserError as error:
        print(f"swarm-node: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has gone
        return 141
    return 0


def leave(code: int) -> NoReturn:
    """As sys.exit, but the objects of torch's and sympy's modules are not taken apart: that is a second of CPU time."""
    atexit._run_exitfuncs()
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def dispatch(argv: Sequence[str]) -> None:
    """Run the command that is named. UserError for one that does not exist."""
    arguments = list(argv)
    if arguments[:1] in (["--help"], ["-h"], ["help"]):
        print(USAGE)
        return
    command = "run" if not arguments or arguments[0].startswith("-") else arguments.pop(0)
    if command not in COMMANDS:
        raise UserError(f"unknown command {command!r}: one of {', '.join(COMMANDS)}; see swarm-node --help")
    module, _, function = COMMANDS[command].partition(":")
    getattr(importlib.import_module(f"swarm_node.commands.{module}"), function)(arguments)


if __name__ == "__main__":
    main()
