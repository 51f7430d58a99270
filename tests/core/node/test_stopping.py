"""How soon a node leaves: rounds are given up, updates are waited for, and nothing else is
interrupted.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest

from swarm_node.node import stopping
from swarm_node.node.loop import Session
from swarm_node.node.stopping import Interrupted, StopRequest, stoppable
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import Event, RoundDone, Telemetry

LONG = 60.0  # seconds


class LeftAtOnceError(Exception):
    """Raised instead of ending this process."""


@pytest.fixture(autouse=True)
def stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise LeftAtOnceError(code)

    monkeypatch.setattr(os, "_exit", leave)


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Undoes what nohup or a shell's & does to the suite: they make it ignore these signals."""
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGINT, signal.SIGHUP)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "LEAVING_SECONDS", 0.1)
    monkeypatch.setattr(stopping, "LOOK_SECONDS", 0.01)


@contextmanager
def at_work(seconds: float = 0.2) -> Iterator[StopRequest]:
    """A node that has something to save, and may take so many seconds to stop."""
    with stoppable(seconds) as stop:
        stop.to_save = True
        yield stop


def work(stop: StopRequest, seconds: float) -> float:
    """Works until `stop` interrupts it, before `seconds` have passed. Returns the seconds that
    took.
    """
    began = time.monotonic()
    with pytest.raises(Interrupted), stop.interruptible():
        while time.monotonic() - began < seconds:
            pass
    return time.monotonic() - began


def test_a_round_is_given_up_when_the_time_left_is_needed_to_save_and_leave() -> None:
    stop = StopRequest(120.0)
    assert stop.patience() == 120.0 - stopping.LEAVING_SECONDS
    stop.saving = lambda: 40.0
    assert stop.patience() == pytest.approx(60.0 - stopping.LEAVING_SECONDS)
    stop.saving = lambda: 400.0
    assert stop.patience() == stopping.LOOK_SECONDS


def test_by_default_a_node_has_left_before_docker_kills_it() -> None:
    assert NodeConfig().limits.stop_seconds < 10.0


def test_a_round_is_given_up_soon_after_sigterm() -> None:
    with at_work() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wanted
        work(stop, LONG / 2)


def test_a_step_of_the_optimiser_is_waited_for() -> None:
    with at_work() as stop:
        began = time.monotonic()
        stop.stepping = lambda: time.monotonic() - began < 0.5
        os.kill(os.getpid(), signal.SIGTERM)
        assert work(stop, LONG) >= 0.4


def test_ctrl_c_lets_the_round_end_a_second_one_gives_it_up_and_a_third_leaves() -> None:
    with at_work() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wanted
        with stop.interruptible():
            began = time.monotonic()
            while time.monotonic() - began < 0.2:
                pass
        os.kill(os.getpid(), signal.SIGINT)
        work(stop, LONG)
        with pytest.raises(LeftAtOnceError, match=r"^130$"):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_second_ctrl_c_waits_for_a_step_as_long_as_it_takes() -> None:
    with at_work() as stop:
        stop.stepping = lambda: True
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        with stop.interruptible():
            began = time.monotonic()
            while time.monotonic() - began < 0.5:
                pass
        stop.stepping = lambda: False
        work(stop, LONG)


def test_a_terminal_that_is_closed_is_as_sigterm_and_more_of_it_changes_nothing() -> None:
    with at_work() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.wanted
        work(stop, LONG)


def test_it_says_at_once_that_it_will_stop() -> None:
    said: list[str] = []
    with at_work() as stop:
        stop.note = said.append
        os.kill(os.getpid(), signal.SIGINT)
    assert len(said) == 1 and "Ctrl-C again" in said[0]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)]
)
def test_with_nothing_to_save_it_leaves_at_once(number: int, code: int) -> None:
    with stoppable(9.0), pytest.raises(LeftAtOnceError, match=f"^{code}$"):
        os.kill(os.getpid(), number)


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable(9.0) as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.wanted
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_is_not_a_round_is_never_interrupted() -> None:
    with at_work() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        began = time.monotonic()
        while time.monotonic() - began < 0.2:  # saving, for instance
            pass
        assert stop.wanted


class Loses(Telemetry):
    """Somebody types Ctrl-C as soon as the first round is told."""

    def emit(self, event: Event) -> None:
        if isinstance(event, RoundDone):
            os.kill(os.getpid(), signal.SIGINT)


def small_session(
    stop: StopRequest, telemetry: Telemetry, saved: list[object], due: bool = False, **more: object
) -> Session:
    """A session whose rounds and whose other parts do nothing. `saved` takes what is saved."""
    quiet = SimpleNamespace(
        addresses=(),
        traffic=0,
        connected=0,
        waiting=list,
        why_alone=lambda: "",
        lines=lambda wait=False: [],
    )
    idle = SimpleNamespace(
        due=lambda done, asked=False: False,
        resting=str,
        asked=bool,
        exceeded=lambda traffic: False,
        megabytes=0.0,
    )
    report = SimpleNamespace(external_informative=0, external_considered=0)
    runner = SimpleNamespace(run_round=lambda now: report, waiting=list)
    keeper = SimpleNamespace(
        due=lambda done: due, save=lambda done, waiting: saved.append(done) or ""
    )
    progress = SimpleNamespace(note=lambda name, value: None)
    parts = (runner, keeper, idle, quiet, stop, telemetry, idle, idle, progress)
    return Session(*parts, 7, **more)  # type: ignore[arg-type]


def test_a_round_that_was_told_is_saved_however_soon_ctrl_c_comes() -> None:
    saved: list[object] = []
    with stoppable(9.0) as stop:
        small_session(stop, Loses([]), saved).run(0)
    assert saved == [8]


def test_workers_are_compared_after_a_checkpoint_is_written_and_not_at_the_end() -> None:
    done: list[object] = []
    with stoppable(9.0) as stop:
        compare = partial(done.append, "compared")
        small_session(stop, Telemetry([]), done, due=True, compare=compare).run(9)
    assert done == [8, "compared", 9, "compared", 9]


def test_a_worker_that_hangs_in_being_compared_delays_no_end() -> None:
    done: list[object] = []

    def hang() -> None:
        done.append("compared")
        os.kill(os.getpid(), signal.SIGTERM)
        while True:
            signal.pause()

    with stoppable(0.0) as stop:
        small_session(stop, Telemetry([]), done, due=True, compare=hang).run(0)
    assert done == [8, "compared", 8]


def test_handlers_are_put_back() -> None:
    before = [
        signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    ]
    with stoppable(9.0):
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [
        signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    ] == before
