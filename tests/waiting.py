"""Waiting for what a real process, thread or peer does in its own time. Nothing else in the suite
should sleep.

Limits are long, since a machine may be slow and busy. They cost time only where a test waits for
what never happens.
"""

import asyncio
import inspect
import time
from collections.abc import Callable

PAUSE = 0.02  # seconds
PATIENCE = 120.0  # seconds


def until(
    found: Callable[[], object], seconds: float = PATIENCE, what: str = "it", pause: float = PAUSE
) -> float:
    """Looks again and again until something is found. Returns the seconds that took."""
    began = time.monotonic()
    while not found():
        assert time.monotonic() - began < seconds, f"{what} did not happen within {seconds} s"
        time.sleep(pause)
    return time.monotonic() - began


async def until_awaited(
    found: Callable[[], object], seconds: float = PATIENCE, what: str = "it", pause: float = PAUSE
) -> None:
    """As `until`, on an event loop, which goes on meanwhile. What `found` returns may be
    awaitable.
    """
    began = time.monotonic()
    while True:
        answer = found()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        assert time.monotonic() - began < seconds, f"{what} did not happen within {seconds} s"
        await asyncio.sleep(pause)
