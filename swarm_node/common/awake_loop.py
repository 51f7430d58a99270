"""What an asyncio loop needs on a machine that sleeps: see awake.py."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from swarm_node.common.awake import AwakeClock, elapsed, step_of

T = TypeVar("T")


class WakingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock goes on while the machine is suspended. A timer that ended meanwhile goes
    off when the machine wakes, as it does after SIGSTOP: so both look alike to what runs here.
    """

    def time(self) -> float:
        """Seconds by the clock of this loop."""
        return elapsed()


def run_waking(work: Coroutine[Any, Any, T]) -> T:
    """Runs the coroutine to its end as asyncio.run does, in a WakingLoop."""
    with asyncio.Runner(loop_factory=WakingLoop) as runner:
        return runner.run(work)


@asynccontextmanager
async def awake_timeout(seconds: float) -> AsyncIterator[None]:
    """As asyncio.timeout, but only the time counts in which this process was awake."""
    async with asyncio.timeout(None) as limit:
        watching = asyncio.create_task(_watch(limit, seconds))
        try:
            yield
        finally:
            watching.cancel()


async def _watch(limit: asyncio.Timeout, seconds: float) -> None:
    """Ends the limit once this process has been awake for so many seconds."""
    now, step = asyncio.get_running_loop().time, step_of(seconds)
    awake = AwakeClock(now, step)
    ends = awake() + seconds
    while (left := ends - awake()) > 0:
        await asyncio.sleep(min(step, left))
    limit.reschedule(now())
