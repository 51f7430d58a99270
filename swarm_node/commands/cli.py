"""The command line. A first argument that is a flag, or none, means `run`. Nothing prompts, except
a first run on a graphics card: at a terminal it waits for a yes before a large download.

settings/command_line.py reads the options of a command; this module finds the command.

A Ctrl-C that comes before `main` has set its handler shows Python's own traceback of a
KeyboardInterrupt. So this module imports little. Once `main` has begun, no Ctrl-C shows one.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swarm_node.common.command import ListedCommand

USAGE = "usage: swarm-node [COMMAND|run] [arguments] | COMMAND --help[-all] | --version"
HELP = "swarm-node COMMAND --help shows the most used options, --help-all shows all."
# Seconds until a user at a terminal sees a line; with the start before it, within one second
SOON = 0.4
# The variables of torch's allocator; all are its own name for the same
ALLOCATOR = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"}


def main() -> None:
    """Entry point: exit code 0, 2 for a user's mistake, 75 for what may pass, 130 when
    interrupted.
    """
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    from swarm_node.common import homeless, interrupts, terminal

    signal.signal(signal.SIGINT, interrupts.leave_at_once)
    interrupts.mend_streams()
    terminal.guard_streams()
    homeless.settle()
    # Before torch loads, since its idle threads would spin: two nodes on two cores take a tenth of
    # the time without.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    settle_allocator()
    leave(outcome(sys.argv[1:]))


def settle_allocator() -> None:
    """Lets torch grow the memory that it holds of a card, before torch loads: micro-batches differ
    in length, and fixed pieces of a card's memory would soon fit none of them. What the user has
    set stays. WSL2 has no such memory, and torch would warn of that.
    """
    if ALLOCATOR & os.environ.keys() or "microsoft" in os.uname().release.lower():
        return
    os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"


def outcome(argv: list[str], act: "Callable[[list[str]], None] | None" = None) -> int:
    """Exit code of a command, or of `act`. SystemExit where the command has one of its own."""
    from swarm_node.common.errors import UserError, exit_code
    from swarm_node.common.interrupts import Interrupt, leave_at_once

    interrupt = Interrupt()
    try:
        # Else the caller handles signals itself
        if signal.getsignal(signal.SIGINT) is leave_at_once:
            signal.signal(signal.SIGINT, interrupt.handle)
        (act or dispatch)(argv)
        sys.stdout.flush()
    except UserError as error:
        return told(str(error), exit_code(error))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        return 141
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return told(
                f"{error.filename or 'the output'} cannot be written, the disk is full: make room",
                75,
            )
        if interrupt.came:  # a library turned it into another error, as lazy imports do
            return 130
        raise
    return 0


def told(line: str, code: int) -> int:
    """Prints the line, without secrets, to standard error, if that can be written, and returns the
    code.
    """
    from swarm_node.common.redaction import hidden
    from swarm_node.common.terminal import one_line

    with suppress(OSError):
        print(f"swarm-node: {one_line(hidden(line))}", file=sys.stderr, flush=True)
    return code


def leave(code: int) -> None:
    """Ends the process, silently where the reader of its output has gone. A Ctrl-C now ends it at
    once: taking torch apart may take a second.
    """
    from swarm_node.common.interrupts import leave_at_once

    signal.signal(signal.SIGINT, leave_at_once)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # Python would try once more, and say so
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def dispatch(argv: list[str]) -> None:
    """Run the named command. Raises UserError if it does not exist."""
    from swarm_node.commands.table import find, group, load
    from swarm_node.common import terminal

    arguments = list(argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if arguments[:1] in (["--help"], ["-h"]):
        print(commands_page())
        return
    if arguments[:1] == ["--version"]:
        from importlib import metadata  # here: this import takes as long as all others together

        print(f"swarm-node {metadata.version('textswarm')}")
        return
    if not arguments or arguments[0].startswith("-") or arguments[0].endswith(".toml"):
        arguments.insert(0, "run")
    if arguments[1:] in ([], ["--help"], ["-h"]) and (members := group(arguments[0])):
        print(group_page(arguments[0], members))
        return
    name, entry, arguments = find(arguments)
    terminal.guard_libraries()
    with saying("loading ...") if entry.lasting else nullcontext():
        command = load(entry)
    # After -- everything is text
    end = arguments.index("--") if "--" in arguments else len(arguments)
    flags, words = arguments[:end], arguments[end:]
    if "--help" in flags or "-h" in flags:
        print(f"{command.page}\n\nFor all options and their defaults: swarm-node {name} --help-all")
        return
    if "--help-all" in flags:  # the parser of a command knows the long page by the usual name
        flags = ["--help" if flag == "--help-all" else flag for flag in flags]
    command.do(flags + words)


@contextmanager
def saying(text: str) -> "Iterator[None]":
    """Prints the text to standard error, if that is a terminal and the context takes longer than
    SOON seconds.
    """
    if not os.isatty(2):
        yield
        return
    import threading

    line = threading.Timer(SOON, os.write, (2, f"{text}\n".encode()))
    line.daemon = True
    line.start()
    try:
        yield
    finally:
        line.cancel()


def commands_page() -> str:
    """All commands, by what a user wants to do; a group in one line."""
    from swarm_node.commands.table import COMMANDS, GROUPS, group
    from swarm_node.common.command import Purpose

    lines: dict[str, str] = {}  # by command or group
    for purpose in Purpose:
        lines[purpose.value] = f"\n{purpose.value}:"
        for name, entry in COMMANDS.items():
            first, space, _ = name.partition(" ")
            if entry.purpose is purpose and space:
                members = "|".join(each.partition(" ")[2] for each in group(first))
                lines[first] = _line(f"{first} {members}", GROUPS.get(first, entry.summary))
            elif entry.purpose is purpose:
                lines[name] = _line(name, entry.summary)
    return "\n".join([USAGE, *lines.values(), "", HELP])


def group_page(name: str, members: "Mapping[str, ListedCommand]") -> str:
    """The commands of a group."""
    words = {each: f"{each} {entry.arguments}" for each, entry in members.items()}
    width = max(map(len, words.values()))
    lines = [_line(words[each], entry.summary, width) for each, entry in members.items()]
    return "\n".join([f"usage: swarm-node {name} COMMAND [arguments]", "", *lines, "", HELP])


def _line(words: str, summary: str, width: int = 22) -> str:
    """The words, and the summary in a column of its own, on as many lines as it needs."""
    import textwrap

    column = " " * (width + 4)
    first, *others = textwrap.wrap(
        summary, 80, initial_indent=column, subsequent_indent=column, break_on_hyphens=False
    )
    if len(words) > width:
        return "\n".join([f"  {words}", first, *others])
    return "\n".join([f"  {words:<{width}}  {first.strip()}", *others])


if __name__ == "__main__":
    main()
