"""Standard output of a child process, as its pipe to the parent."""

import os
import sys
from collections.abc import Callable


def take_stdout() -> Callable[[str], None]:
    """Keeps the pipe for messages: what a library prints goes to stderr. Returns a function that sends one text."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(text: str) -> None:
        pipe.write(text)
        pipe.flush()

    return send
