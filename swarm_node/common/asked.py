"""What a program of this machine says when it is asked, such as the one of a driver.

Such a program may be missing, may hang while it wakes a card, or may print words where a number was
expected. So it is found in absolute folders only: with an empty entry in PATH, `shutil.which` would
take a file of that name from the folder in which a command is started. It has some seconds, and
what it starts ends with it. It gets no secrets, and what it prints is bounded.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer

from swarm_node.common.children import OF_THE_USER, clean_environment

MOST_BYTES = 1 << 16  # of an answer; a longer one is none


def installed(name: str, *elsewhere: Path) -> str:
    """The path of a program: in PATH, else the first of these files that exists; "" if none is
    there.
    """
    search_path = os.environ.get("PATH", "").split(os.pathsep)
    folders = list(filter(os.path.isabs, search_path))
    program = shutil.which(name, path=os.pathsep.join(folders)) if folders else None
    if program:
        return program
    return next((str(file) for file in elsewhere if os.access(file, os.X_OK)), "")


def said(program: str, arguments: Sequence[str], seconds: float) -> str:
    """What the program prints; "" where it fails, hangs or prints too much."""
    try:
        child = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=clean_environment(OF_THE_USER),
            start_new_session=True,
        )
    except (OSError, ValueError):
        return ""
    assert child.stdout is not None
    # Also ends what the program started: it would keep the pipe open
    timer = Timer(seconds, _end, [child])
    timer.start()
    try:
        with child.stdout:
            text = child.stdout.read(MOST_BYTES)
        is_whole = len(text) < MOST_BYTES
        if not is_whole:
            _end(child)
        succeeded = child.wait() == 0
    finally:
        timer.cancel()
        if child.poll() is None:
            _end(child)
            child.wait()
    return text.decode(errors="replace") if is_whole and succeeded else ""


def _end(child: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
