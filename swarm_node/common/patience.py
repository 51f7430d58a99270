"""A line for whoever waits at a terminal."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SOON = 0.4  # seconds: with what came before, the line is there within one


@contextmanager
def saying(text: str) -> Iterator[None]:
    """Says it where the context takes longer than some tenths of a second, and standard error is a terminal."""
    if not os.isatty(2):
        yield
        return
    line = threading.Timer(SOON, os.write, (2, f"{text}\n".encode()))
    line.daemon = True
    line.start()
    try:
        yield
    finally:
        line.cancel()
