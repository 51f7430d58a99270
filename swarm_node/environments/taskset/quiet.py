"""Runs the coroutines of a task set where nothing outside can be waited for: in a sandboxed child,
and in the process that reads the task set alike.
"""

import asyncio
import os
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class WaitsOutside(RuntimeError):
    """A coroutine waits for something outside its process, such as the network."""


class QuietLoop(asyncio.BaseEventLoop):
    """Runs coroutines that wait for nothing outside, without a descriptor: a sandboxed child can
    open none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._selector = self

    def select(self, timeout: float | None) -> list[Any]:
        """Waits for `timeout` seconds; there are no events. WaitsOutside for None, which would
        wait for ever.
        """
        if timeout is None:
            raise WaitsOutside("it waits for something outside its process")
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            os.sched_yield()
        return []

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, in a loop of its own."""
    loop = QuietLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()
