"""The command line. A first argument that is a flag, or none, means `run`. Never prompts.

tyro reads the options of a command; which command it is, is found out here, in three lines, and not by tyro's
subcommands. These need the options of all commands, with their defaults, before they look at the arguments: but the
defaults are what the configuration file says, and which kind of file it is, the command says. To import and build all
that, `--help` took 0.5 s (2 cores, idle), where it takes 0.02 s. `completion` takes that time, and uses them.
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
A small language model that learns together with others by sharing its attempts.

usage: swarm-node [COMMAND] [arguments]     (no command means run)

  run [CONFIG.toml] [--flags]       train here and share
  bootstrap [--flags]               an entry and relay node; does not train
  status [--json]                   how the running node is (exit code 0: well)
  peers [--json]                    whom the running node knows
  page [HOME|REPORT] [--flags]      a node or a simulation in a browser
  plot RUN ... [--out FOLDER]       figures of runs, as PNG and SVG
  doctor [CONFIG.toml] [--flags]    what keeps a node from training or sharing
  check [CONFIG.toml] [--flags]     what a configuration comes to
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
    if arguments[:1] == ["--version"]:
        from importlib import metadata  # now: it costs as much time as all else here

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
