"""Handlers of signals for a program that has nothing to save: they end it at once, without a
traceback. The first process of a container needs them, since the system by itself would do nothing
for it.
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

SHOW_CURSOR = b"\x1b[?25h\n"  # a view that was cut off has left it hidden


class Interrupt:
    """The first Ctrl-C raises KeyboardInterrupt, the second ends the process at once. So does the
    first during an import, where libraries turn KeyboardInterrupt into other errors, or print a
    traceback and continue.
    """

    def __init__(self) -> None:
        self.came = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handles SIGINT."""
        if self.came or _imports(frame):
            leave_at_once(number, frame)
        self.came = True
        raise KeyboardInterrupt


def leave_at_once(number: int, frame: FrameType | None = None) -> None:
    """Handles any signal: ends the process with the exit code that shells show for it, 130 after
    Ctrl-C.
    """
    _leave(128 + number)


def told_to_stop(number: int, frame: FrameType | None = None) -> None:
    """Ends a node that has nothing to save: with 130 after Ctrl-C, else with 0, since it did what
    it was told.
    """
    _leave(128 + number if number == signal.SIGINT else 0)


def nothing_to_save() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP end the process at once. A signal ignored, as by
    nohup, stays ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, told_to_stop)


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _leave(code: int) -> None:
    with suppress(OSError):
        if os.isatty(1):
            os.write(1, SHOW_CURSOR)
    os._exit(code)  # at once: taking the modules of torch apart would cost a second of CPU time


def mend_streams() -> None:
    """Makes every text printable: a character that the encoding of a terminal or pipe lacks becomes
    a question mark. Text for a stream that was closed (`>&-`) is discarded; else it would go into
    the file that is opened next.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
