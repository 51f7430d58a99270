"""The command line. A first argument that is a flag, or none, means `run`. Never prompts.

settings/command_line.py reads the options of a command; which command it is, is found out here. tyro lays out the pages
of all options, and the scripts of `completion`.
"""

import os
import sys
from contextlib import nullcontext, suppress

USAGE = """\
Trains a small language model together with others, by sharing completions.
usage: swarm-node [COMMAND] [arguments]     (no command means run)

  run [CONFIG.toml] [--flags]       train here, publish and collect
  bootstrap [--flags]               a bootstrap and relay node; does not train
  pause [--home FOLDER]             the running node rests after its round
  resume [--home FOLDER]            it goes on
  contribute --api URL --model NAME gives completions of an API, trains nothing
  status [--json]                   how the running node is (exit code 0: well)
  peers [--json]                    whom the running node knows
  page [HOME|REPORT] [--flags]      a node or a simulation in a browser
  plot RUN ... [--out FOLDER]       figures of runs, as PNG and SVG
  doctor [CONFIG.toml] [--flags]    what hinders training or connecting
  check [CONFIG.toml] [--flags]     what a configuration means here
  simulate [CONFIG.toml] [--flags]  many nodes here: what does sharing bring?
  attack [CONFIG.toml] [--flags]    the same with hostile nodes
  eval [NAME|FOLDER] [--flags]      accuracy of a model on held-out questions
  solve SIZE|FILE.json              the solution of a Temporal Clue puzzle
  dataset FILE [--flags]            what a file of questions comes to
  export DIR [--flags]              a trained model as a folder
  push NAME/MODEL [--flags]         a trained model to the Hugging Face hub
  init [--home FOLDER]              make this node's identity (run does so too)
  id [--home FOLDER]                show this node's identity
  backup FILE [--home FOLDER]       identity and newest checkpoint, in one file
  restore FILE [--home FOLDER]      a home from it
  completion bash|zsh|fish          a script that completes commands and options

swarm-node COMMAND --help: its most used options; --help-all: all. --version
Options: defaults < CONFIG.toml < SWARM_NODE_SEED=1 < flags."""


def main() -> None:
    """Entry point: exit code 0, 2 for a user's mistake, 130 when interrupted."""
    import signal  # here and below: little comes before the handler

    from swarm_node.common import interrupts

    signal.signal(signal.SIGINT, interrupts.leave_at_once)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # bin/swarm-node holds it back
    interrupts.print_anything()
    leave(outcome(sys.argv[1:]))


def outcome(argv: list[str]) -> int:
    """Exit code of a command. SystemExit where the command has one of its own."""
    import signal

    from swarm_node.common.errors import UserError
    from swarm_node.common.interrupts import Interrupt, leave_at_once

    interrupt = Interrupt()
    try:
        if signal.getsignal(signal.SIGINT) is leave_at_once:  # else somebody else runs this, and handles signals
            signal.signal(signal.SIGINT, interrupt.handle)
        dispatch(argv)
        sys.stdout.flush()
    except UserError as error:
        from swarm_node.common.redaction import hidden

        print(f"swarm-node: {hidden(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        return 141
    except Exception:
        if interrupt.came:  # a library made something else of it, as lazy imports do
            return 130
        raise
    return 0


def leave(code: int) -> None:
    """Like sys.exit, but does not take the modules of torch and sympy apart: that would cost a second of CPU time."""
    import atexit

    atexit._run_exitfuncs()
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def dispatch(argv: list[str]) -> None:
    """Run the named command. UserError if it does not exist."""
    from swarm_node.commands.table import COMMANDS, LASTING, load
    from swarm_node.common.errors import UserError
    from swarm_node.common.patience import saying

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
    with saying("loading ...") if name in LASTING else nullcontext():
        command = load(name)
    if "--help" in arguments or "-h" in arguments:
        print(f"{command.page}\n\nall options, with their defaults: swarm-node {name} --help-all")
        return
    command.do(["--help" if argument == "--help-all" else argument for argument in arguments])


if __name__ == "__main__":
    main()
