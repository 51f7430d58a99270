"""Time on a machine that sleeps.

A laptop is closed, a container is paused, a job is stopped by SIGSTOP: then no process of this
machine runs, for minutes or hours. Afterwards two questions have different answers, and each has a
clock of its own.

"How old is what others know too, such as an announcement, an address or a ban?" That time goes on
while this machine sleeps, and `elapsed` counts all of it. On Linux the clock of time.monotonic()
stands still while the machine is suspended, and goes on while its processes are stopped. The clock
CLOCK_BOOTTIME goes on in both cases. The time of day is not read here, as anybody may set it.

"How long has another process kept this one waiting?" Who has slept cannot blame another for it.
`AwakeClock` counts only the time in which this process ran. It cannot see directly that it did not
run. But whoever waits by this clock looks at it again and again, with short steps between two
looks, so a step that took far longer than it was to take is one in which nobody ran. Of such a step
only a moment counts. On a machine that is so busy that steps are late, less counts too: then a slow
child is not to blame either.

Nothing here loads asyncio, because scoring processes fork, and the less they have loaded, the
faster they do. What a loop needs is in `awake_loop.py`.
"""

import math
import select
import socket
import sys
import threading
import time
from collections.abc import Callable

STEP_SECONDS = 1.0  # between two looks at an AwakeClock, at most
STEPS = 4  # of a shorter wait, at least: a sleep must not take a large part of it
LATE = 1.5  # times its length, as which a step counts at most


def _clock_with_sleep() -> Callable[[], float]:
    """A clock that never goes back, and goes on while the machine is suspended. Where a system has
    none, it stands still meanwhile.
    """
    number = getattr(time, "CLOCK_BOOTTIME", None)
    if number is None and sys.platform == "darwin":
        number = time.CLOCK_MONOTONIC  # of macOS, unlike time.monotonic(), counts sleep
    if number is None:
        return time.monotonic
    return lambda: time.clock_gettime(number)


_elapsed = _clock_with_sleep()


def elapsed() -> float:
    """Seconds since some moment in the past, those included in which this machine slept."""
    return _elapsed()


def step_of(seconds: float) -> float:
    """How long to wait between two looks, in a wait of so many seconds."""
    return min(STEP_SECONDS, seconds / STEPS)


class AwakeClock:
    """Seconds in which this process ran. Call it after every step. Any thread may."""

    def __init__(self, clock: Callable[[], float] = elapsed, step: float = STEP_SECONDS) -> None:
        """`clock`: seconds, going on while this process sleeps. `step`: between two looks."""
        self._clock, self._most = clock, LATE * step
        self._looked, self._awake = clock(), 0.0
        self._alone = threading.Lock()

    def __call__(self) -> float:
        with self._alone:
            now = self._clock()
            self._awake += min(now - self._looked, self._most)
            self._looked = now
            return self._awake


def looking_awake() -> AwakeClock:
    """An AwakeClock at which a thread looks for as long as this process lives, so that others may
    look as rarely as they like.
    """
    awake = AwakeClock()

    def look() -> None:
        while True:
            time.sleep(STEP_SECONDS)
            awake()

    threading.Thread(target=look, name="awake", daemon=True).start()
    return awake


def has_news(
    connection: socket.socket, seconds: float, clock: Callable[[], float] = elapsed
) -> bool:
    """Whether there is something to receive, or the other end is closed. Waits so many seconds for
    it, of which only those count in which this process was awake. `clock`: as of `AwakeClock`.
    """
    step = step_of(seconds)
    awake = AwakeClock(clock, step)
    ends = awake() + seconds
    left = seconds
    while not select.select([connection], [], [], min(step, left))[0]:
        left = ends - awake()
        if left <= 0:
            return False
    return True


class Patience:
    """Reads and writes a blocking socket, and waits for its other end only as long as `begin` says.
    Only the time counts in which this process was awake.
    """

    def __init__(self, connection: socket.socket, clock: Callable[[], float] = elapsed) -> None:
        """`clock`: as of `AwakeClock`."""
        self._connection, self._clock = connection, clock
        self._step = STEP_SECONDS
        self._awake, self._ends = AwakeClock(clock), math.inf

    def begin(self, seconds: float) -> None:
        """From now on, the other end has so many seconds for all that follows."""
        self._step = step_of(seconds)
        self._awake = AwakeClock(self._clock, self._step)
        self._ends = self._awake() + seconds

    def recv(self, size: int) -> bytes:
        """What has come, at most `size` bytes; b"" where the other end is closed. TimeoutError
        where its time is over, OSError as of a socket.
        """
        while True:
            self._take_a_step()
            try:
                return self._connection.recv(size)
            except TimeoutError:
                continue

    def sendall(self, data: bytes) -> None:
        """Sends all of it. TimeoutError where the other end does not read in its time."""
        left = memoryview(data)
        while left:
            self._take_a_step()
            try:
                left = left[self._connection.send(left) :]
            except TimeoutError:
                continue

    def _take_a_step(self) -> None:
        """Lets the next call of the socket wait for a step. TimeoutError where none is left."""
        left = self._ends - self._awake()
        if left <= 0:
            raise TimeoutError("the other end kept this process waiting")
        self._connection.settimeout(min(self._step, left))
