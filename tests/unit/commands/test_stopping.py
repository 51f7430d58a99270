"""How soon a node leaves: rounds are given up, updates are waited for, and nothing else is interrupted."""

import os
import signal
import time

import pytest

from swarm_node.commands.run import stopping
from swarm_node.commands.run.stopping import Interrupted, Stop, stoppable


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "ROUND_SECONDS", 0.05)
    monkeypatch.setattr(stopping, "UPDATE_SECONDS", 0.4)
    monkeypatch.setattr(stopping, "LOOK_SECONDS", 0.01)


def work(stop: Stop, seconds: float) -> float:
    """Seconds until it was interrupted."""
    began = time.monotonic()
    with pytest.raises(Interrupted), stop.interruptible():
        while time.monotonic() - began < seconds:
            pass
    return time.monotonic() - began


def test_a_round_is_given_up_soon_after_sigterm() -> None:
    with stoppable() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wanted
        assert work(stop, 5.0) < 0.4


def test_an_update_is_waited_for_but_not_for_ever() -> None:
    with stoppable() as stop:
        stop.updating = lambda: True
        os.kill(os.getpid(), signal.SIGTERM)
        assert 0.35 < work(stop, 5.0) < 4.0


def test_ctrl_c_lets_the_round_end_and_a_second_one_does_not() -> None:
    with stoppable() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wanted
        with stop.interruptible():
            began = time.monotonic()
            while time.monotonic() - began < 0.2:
                pass
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_is_not_a_round_is_never_interrupted() -> None:
    with stoppable() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        began = time.monotonic()
        while time.monotonic() - began < 0.2:  # saving, for instance
            pass
        assert stop.wanted


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]
    with stoppable():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)] == before
