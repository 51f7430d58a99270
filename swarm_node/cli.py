"""The command line. A first argument that is a flag, or none, means `run`. Never prompts.

tyro reads the options of a command. Which command it is, is found here, not by tyro's subcommands. These need the
options of all commands, with their defaults, before they look at the arguments. But the defaults come from the
configuration file, and the kind of file depends on the command. Also, `--help` took 0.5 s to import and build all
options (2 cores, idle); now it takes 0.02 s. Only `completion` takes that time, since it needs all options.
"""

import atexit
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from swarm_node.commands.table import COMMANDS, load
from swarm_node.common.errors import UserError

USAGE = """\
Trains a small language model together with others, by sharing completions.

usage: swarm-node [COMMAND] [arguments]     (no command means run)

  run [CONFIG.toml] [--flags]       train here, publish and collect
  bootstrap [--flags]               a bootstrap and relay node; does not train
  status [--json]                   how the running node is (exit code 0: well)
  peers [--json]                    whom the running node knows
  doctor [CONFIG.toml] [--flags]    what keeps a node from training or connecting
  check [CONFIG.toml] [--flags]     what a configuration means here
  simulate [CONFIG.toml] [--flags]  many nodes here: what does sharing bring?
  attack [CONFIG.toml] [--flags]    the same with hostile nodes
  eval NAME|FOLDER [--flags]        accuracy of a model on held-out questions
  solve SIZE|FILE.json              the solution of a Temporal Clue puzzle
  init [--home FOLDER]              make this node's identity (run does so too)
  id [--home FOLDER]                show this node's identity
  completion bash|zsh|fish          a script that completes commands and options

swarm-node COMMAND --help: its most used options; --help-all: all of them.
Options come from defaults < CONFIG.toml < environment < flags, such as
SWARM_NODE_TRAINING__LEARNING_RATE=1e-4. swarm-node --version: what this is."""


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
    except BrokenPipeError:  # the reader of our output has gone
        return 141
    return 0


def leave(code: int) -> NoReturn:
    """Like sys.exit, but does not take the modules of torch and sympy apart: that would cost a second of CPU time."""
    atexit._run_exitfuncs()
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def dispatch(argv: Sequence[str]) -> None:
    """Run the named command. UserError if it does not exist."""
    arguments = list(argv)
    if arguments[:1] in (["--help"], ["-h"], ["help"]):
        print(USAGE)
        return
    if arguments[:1] == ["--version"]:
        from importlib import metadata  # here: this import takes as long as all others together

        print(f"swarm-node {metadata.version('swarm-node')}")
        return
    name = "run" if not arguments or arguments[0].startswith("-") else arguments.pop(0)
    if name not in COMMANDS:
        raise UserError(f"unknown command {name!r}: one of {', '.join(COMMANDS)}; see swarm-node --help")
    command = load(name)
    if "--help" in arguments or "-h" in arguments:
        print(f"{command.page}\n\nall options, with their defaults: swarm-node {name} --help-all")
        return
    command.do(["--help" if argument == "--help-all" else argument for argument in arguments])


if __name__ == "__main__":
    main()
