"""Sleep for tests: clocks that jump, and an event loop in which time passes by itself."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
JUMPS = [60.0, 600.0, 3600.0, 8 * 3600.0]  # seconds


class Jumping:
    """A clock that goes on by `step` with each look, and jumps at some of them."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.looks, self._step = 1000.0, 0, step
        self._jumps: dict[int, float] = {}
        self._events: dict[int, Callable[[], object]] = {}

    def at(self, look: int, jump: float) -> None:
        """Before this look the machine sleeps for `jump` seconds."""
        self._jumps[look] = jump

    def then(self, look: int, event: Callable[[], object]) -> None:
        """Before this look the event happens."""
        self._events[look] = event

    def __call__(self) -> float:
        self.looks += 1
        self.now += self._step + self._jumps.get(self.looks, 0.0)
        self._events.get(self.looks, lambda: None)()
        return self.now


class Dream(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer where there is nothing else to do, so that hours
    pass in no time. It waits for no socket.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0
        self._select = self._selector.select
        self._selector.select = self._pass  # type: ignore[method-assign]

    def time(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        """The machine sleeps: all of this time passes at once."""
        self._now += seconds

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.run_until_complete(work)

    def _pass(self, timeout: float | None = None) -> list[Any]:
        self._now += timeout or 0.0
        return self._select(0)


@contextmanager
def in_a_dream() -> Iterator[Dream]:
    dream = Dream()
    try:
        yield dream
    finally:
        for task in asyncio.all_tasks(dream):
            task.cancel()
        dream.run_until_complete(asyncio.sleep(0))
        dream.close()
