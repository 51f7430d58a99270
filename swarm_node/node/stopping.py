"""How a node is told to stop, and how soon it does.

The first Ctrl-C lets the round in progress end, however long that takes. The second gives the round
up, and the node saves what it learned before. The third leaves at once. SIGTERM comes from a
supervisor that kills after some seconds, SIGHUP from a terminal that was closed: the node then
gives up a round that does not end early enough to save. Computing a gradient changes no weight, so
it can be given up, too. Only the step of the optimiser, which is short, is always waited for: half
a step cannot be saved. Until the first round has ended there is nothing to save, and every signal
ends the node at once.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from swarm_node.common import interrupts

LEAVING_SECONDS = 2.0  # to end the other processes, after saving
SAVING_TIMES = 1.5  # how much longer than the last checkpoint the next one may take to write
LOOK_SECONDS = 0.1  # between two looks whether the round may be given up


class Interrupted(BaseException):
    """Gives up the present round. Not an Exception, so that code that handles errors does not catch
    it.
    """


class StopRequest:
    """Whether and how the node is to stop. The first SIGINT, SIGTERM or SIGHUP sets `wanted`."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: how long the node may take to end after SIGTERM or SIGHUP."""
        self._seconds = seconds
        self.wanted = False
        self.to_save = False  # whether there is anything to lose
        # Whether weights were changed for a round that is not counted yet
        self.stepping: Callable[[], bool] = lambda: False
        # Tells the trainer that its round is counted
        self.counted: Callable[[], None] = lambda: None
        # How many seconds the last checkpoint took to write
        self.saving: Callable[[], float] = lambda: 0.0
        # Shows a line at once; a signal handler calls it
        self.note: Callable[[str], None] = lambda text: None
        self._told = False  # whether SIGTERM or SIGHUP came
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
                    "leaving this round unfinished, and saving; Ctrl-C again ends at once, and "
                    "saves nothing"
                )
        elif not self._told:
            self._told = True
            signal.setitimer(signal.ITIMER_REAL, self.patience(), LOOK_SECONDS)
        if not self.wanted:
            self.wanted = True
            self.note("stopping after this round" + "; Ctrl-C again gives it up" * self._typed)

    def patience(self) -> float:
        """Seconds from SIGTERM until the round is given up: what is left of the time allowed when
        the node has saved and left.
        """
        saving = SAVING_TIMES * self.saving()
        return max(LOOK_SECONDS, self._seconds - LEAVING_SECONDS - saving)

    def hurry(self, number: int, frame: FrameType | None) -> None:
        """Handles the alarm after SIGTERM, SIGHUP or a second Ctrl-C: raises Interrupted where that
        is allowed. A step of the optimiser ends first.
        """
        if self._may_interrupt and not self.stepping():
            self._may_interrupt = False
            raise Interrupted


@contextmanager
def stoppable(seconds: float) -> Iterator[StopRequest]:
    """The Stop handles signals, in the main thread, until the context ends. What nohup ignores
    stays ignored. `seconds`: how long the node may take to end after SIGTERM or SIGHUP.
    """
    stop = StopRequest(seconds)
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
