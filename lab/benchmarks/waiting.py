"""Polling for something that happens in another process."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(found: Callable[[], T], seconds: float, what: str) -> T:
    """The first true result of `found`. Raises TimeoutError if none comes within `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {seconds:g} s")
        time.sleep(0.05)
    return value
