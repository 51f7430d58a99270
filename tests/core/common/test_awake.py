"""Who slept itself blames nobody: clocks that jump by a minute to eight hours, while something is
awaited.
"""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from swarm_node.common import awake, awake_loop, children
from swarm_node.common.awake import AwakeClock, Patience, has_news
from swarm_node.common.awake_loop import WakingLoop, awake_timeout
from tests.dreams import JUMPS, Jumping, in_a_dream

LIMIT = 2.0  # seconds


@pytest.mark.parametrize("jump", JUMPS)
def test_a_sleep_counts_as_a_moment_however_long_it_was(jump: float) -> None:
    clock = Jumping()
    awake_for = AwakeClock(clock)
    for _ in range(3):
        clock.now += 1.0
        awake_for()
    clock.now += jump
    assert 3.0 < awake_for() <= 5.0


def test_time_between_looks_counts_in_full_while_they_are_in_time() -> None:
    clock = Jumping()
    awake_for = AwakeClock(clock)
    for _ in range(90):
        clock.now += 1.2
        awake_for()
    assert awake_for() == pytest.approx(108.0)


@contextmanager
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


@pytest.mark.parametrize("jump", JUMPS)
def test_what_comes_after_a_sleep_is_still_received(jump: float) -> None:
    """The look after the jump finds that the time has passed for whoever counts the sleep."""
    with ends() as (ours, theirs):
        clock = Jumping()
        clock.at(4, jump)
        clock.then(6, lambda: theirs.sendall(b"at last"))
        patience = Patience(ours, clock)
        patience.begin(LIMIT)
        patience._step = 0.01  # of real time; the clock of this test has its own
        assert patience.recv(100) == b"at last"


def test_who_hangs_is_given_up_after_the_time_that_this_process_was_awake() -> None:
    with ends() as (ours, _):
        clock = Jumping(step=0.5)
        for look in (3, 5, 7):
            clock.at(look, 3600.0)
        patience = Patience(ours, clock)
        patience.begin(LIMIT)
        patience._step = 0.01
        with pytest.raises(TimeoutError):
            patience.recv(1)
        assert clock.looks > 3


def test_who_does_not_read_is_given_up_too() -> None:
    with ends() as (ours, _):
        patience = Patience(ours, Jumping(step=0.5))
        patience.begin(LIMIT)
        patience._step = 0.01
        with pytest.raises(TimeoutError):
            patience.sendall(bytes(64 * 1024 * 1024))


def test_an_end_that_is_closed_reads_as_such() -> None:
    with ends() as (ours, theirs):
        theirs.close()
        patience = Patience(ours)
        patience.begin(LIMIT)
        assert patience.recv(1) == b""


@pytest.mark.parametrize("jump", JUMPS)
def test_news_that_come_after_a_sleep_are_still_in_time(jump: float) -> None:
    with ends() as (ours, theirs):
        clock = Jumping()
        clock.at(4, jump)
        clock.then(6, lambda: theirs.sendall(b"at last"))
        assert has_news(ours, 0.04, clock) and clock.looks >= 6


def test_where_no_news_come_the_wait_is_over_when_this_process_was_awake_for_so_long() -> None:
    with ends() as (ours, theirs):
        clock = Jumping(step=0.01)
        clock.at(3, 3600.0)
        assert not has_news(ours, 0.04, clock) and 4 <= clock.looks <= 6
        assert not has_news(ours, 0.0)
        theirs.close()
        assert has_news(ours, 0.0)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_timeout_on_a_loop_does_not_count_the_sleep(jump: float) -> None:
    async def awaited() -> str:
        async with awake_timeout(60.0):
            await asyncio.sleep(1.0)
            dream.sleep(jump)
            await asyncio.sleep(50.0)
        return "in time"

    with in_a_dream() as dream:
        assert dream.run(awaited()) == "in time"


def test_a_timeout_on_a_loop_ends_what_hangs() -> None:
    async def awaited() -> float:
        began = dream.time()
        with pytest.raises(TimeoutError):
            async with awake_timeout(60.0):
                await asyncio.Event().wait()
        return dream.time() - began

    with in_a_dream() as dream:
        assert dream.run(awaited()) == pytest.approx(60.0, abs=1.0)


def test_a_waking_loop_counts_the_time_in_which_the_machine_was_suspended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CLOCK_MONOTONIC, which other loops use, stands still meanwhile."""
    suspended = 0.0
    monkeypatch.setattr(awake_loop, "elapsed", lambda: time.monotonic() + suspended)

    async def timers() -> bool:
        nonlocal suspended
        timer = asyncio.create_task(asyncio.sleep(3600.0))
        await asyncio.sleep(0)
        suspended = 3 * 3600.0
        await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        return timer.done()

    with asyncio.Runner(loop_factory=WakingLoop) as runner:
        assert runner.run(timers())


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="needs CLOCK_BOOTTIME of Linux")
def test_the_clock_of_announcements_is_the_one_that_goes_on_while_suspended() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= awake.elapsed() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_a_program_that_hangs_is_ended_and_what_another_says_is_returned() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        children.run_within(0.3, program("import time; time.sleep(600)"))
    done = children.run_within(60.0, program("print(input()); raise SystemExit(3)"), "said")
    assert (done.stdout, done.returncode) == ("said\n", 3)


def test_a_program_is_not_ended_for_a_sleep_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Jumping()
    clock.at(3, 3600.0)
    made: Callable[..., AwakeClock] = lambda step: AwakeClock(clock, step)  # noqa: E731
    monkeypatch.setattr(children, "AwakeClock", made)
    slow = program("import time; time.sleep(0.2); print('done')")
    monkeypatch.setattr(children, "step_of", lambda seconds: 0.05)
    assert children.run_within(60.0, slow).stdout == "done\n"
