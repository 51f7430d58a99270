"""Standard output of a child process that speaks with its parent through it."""

import os
import sys
from collections.abc import Callable


def take_stdout() -> Callable[[str], None]:
    """Keeps the pipe for messages alone: what a library prints goes to stderr. The result writes one text to it."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def say(text: str) -> None:
        pipe.write(text)
        pipe.flush()

    return say
