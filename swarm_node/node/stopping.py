"""How a node is told to stop, and how soon it does.

The first Ctrl-C lets the round in progress end, however long that takes. The second gives the round
up, and the node saves what it learned before. The third leaves at once. SIGTERM comes from a
supervisor that kills after some seconds, SIGHUP from a terminal that was closed: the node then
gives up a round that does not end soon. It waits longer only for an update of the weights, because
half-updated weights cannot be saved. Until the first round has ended there is nothing to save, and
every signal ends the node at once.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

from swarm_node.common import interrupts

ROUND_SECONDS = 4.0  # from SIGTERM until a round is given up
# ... until an update is given up; docker kills after 10 s, and saving and leaving take time
UPDATE_SECONDS = 7.0
LOOK_SECONDS = 0.1


class Interrupted(BaseException):
    """Gives up the present round. Not an Exception, so that code that handles errors does not catch
    it.
    """


class Stop:
    """Whether and how the node is to stop. The first SIGINT, SIGTERM or SIGHUP sets `wanted`."""

    def __init__(self) -> None:
        self.wanted = False
        self.to_save = False  # whether there is anything to lose
        # Whether weights are being changed right now
        self.updating: Callable[[], bool] = lambda: False
        # Shows a line at once; a signal handler calls it
        self.note: Callable[[str], None] = lambda text: None
        self._asked = 0.0  # when SIGTERM or SIGHUP came, in monotonic seconds; 0 before
        self._typed = 0  # how often Ctrl-C was pressed
        self._may_interrupt = False

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Interrupted may be raised inside this context, and nowhere else."""
        self._may_interrupt = True
        try:
            yield
        finally:
            self._may_interrupt = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handles SIGINT, SIGTERM and SIGHUP."""
        if not self.to_save:
            interrupts.told_to_stop(number)
        if number == signal.SIGINT:
            self._typed += 1
            if self._typed > 2:
                interrupts.leave_at_once(number)
            if self._typed == 2:
                signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
                self.note(
                    "giving up this round, and saving; Ctrl-C again leaves at once, and saves "
                    "nothing"
                )
        elif not self._asked:
            self._asked = monotonic()
            signal.setitimer(signal.ITIMER_REAL, ROUND_SECONDS, LOOK_SECONDS)
        if not self.wanted:
            self.wanted = True
            self.note("stopping after this round" + "; Ctrl-C again gives it up" * self._typed)

    def hurry(self, number: int, frame: FrameType | None) -> None:
        """Handles the alarm after SIGTERM, SIGHUP or a second Ctrl-C: raises Interrupted where that
        is allowed. It lets a running update end first: after SIGTERM or SIGHUP for UPDATE_SECONDS
        at most.
        """
        late = self._asked and monotonic() - self._asked > UPDATE_SECONDS
        if self._may_interrupt and (late or not self.updating()):
            self._may_interrupt = False
            raise Interrupted


@contextmanager
def stoppable() -> Iterator[Stop]:
    """The Stop handles signals, in the main thread, until the context ends. What nohup ignores
    stays ignored.
    """
    stop = Stop()
    handlers = {
        signal.SIGINT: stop.ask,
        signal.SIGTERM: stop.ask,
        signal.SIGHUP: stop.ask,
        signal.SIGALRM: stop.hurry,
    }
    taken = {
        number: handler
        for number, handler in handlers.items()
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    before = {number: signal.signal(number, handler) for number, handler in taken.items()}
    try:
        yield stop
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)
