"""How a node is told to stop, and how soon it does.

Ctrl-C lets the round in progress end, however long that takes; a second one interrupts. SIGTERM comes from machinery
that kills after some seconds: a round that does not end soon is given up. Only an update of the weights is waited for
longer, because weights that are half updated are worth no checkpoint.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

ROUND_SECONDS = 4.0  # from SIGTERM until a round is given up
UPDATE_SECONDS = 7.0  # ... and until an update is; docker kills after 10 s, and saving and leaving take some
LOOK_SECONDS = 0.1


class Interrupted(BaseException):
    """Gives up the present round. Not an Exception, so that code that handles errors does not catch it."""


class Stop:
    """Set by the first SIGINT or SIGTERM."""

    def __init__(self) -> None:
        self.wanted = False
        self.updating: Callable[[], bool] = lambda: False  # whether weights are being changed right now
        self._asked = 0.0
        self._may_interrupt = False

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within it, and nowhere else, Interrupted may be raised."""
        self._may_interrupt = True
        try:
            yield
        finally:
            self._may_interrupt = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handles SIGINT and SIGTERM. The second one raises KeyboardInterrupt."""
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
        if number == signal.SIGTERM:
            self._asked = monotonic()
            signal.setitimer(signal.ITIMER_REAL, ROUND_SECONDS, LOOK_SECONDS)

    def hurry(self, number: int, frame: FrameType | None) -> None:
        """Handles the alarm after SIGTERM: raises Interrupted where it may, and no update is going on or it takes too
        long."""
        if self._may_interrupt and (monotonic() - self._asked > UPDATE_SECONDS or not self.updating()):
            self._may_interrupt = False
            raise Interrupted


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Signals go to the Stop, in the main thread, until the context ends."""
    stop = Stop()
    handlers = {signal.SIGINT: stop.ask, signal.SIGTERM: stop.ask, signal.SIGALRM: stop.hurry}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield stop
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)
