"""How often quick rounds are announced, and what bounds it."""

import pytest

from swarm_node.network.process.outgoing import LEAST_SECONDS, MOST_SECONDS, Pace


def paced(round_seconds: float, kilobytes: int = 10_000, each: int = 1000) -> float:
    """Seconds between announcements after half a minute of such rounds, each announcement costing so many bytes."""
    pace, now, told, spent = Pace(kilobytes), 0.0, 0.0, 0
    while now < 30.0:
        pace.generated(now)
        if now - told >= pace.seconds():
            told, spent = now, spent + each
            pace.announced(now, spent)
        now += round_seconds
    return pace.seconds()


def test_it_follows_the_rounds_between_its_bounds() -> None:
    assert paced(0.05) == LEAST_SECONDS
    assert paced(0.5) == pytest.approx(2.0)
    assert paced(0.9) == MOST_SECONDS == paced(40.0)


def test_before_two_rounds_nothing_is_known_of_their_length() -> None:
    assert Pace(1000).seconds() == MOST_SECONDS


def test_what_a_minute_may_cost_makes_it_slower_but_never_slower_than_it_is_for_slow_rounds() -> None:
    assert paced(0.05, kilobytes=600, each=20_000) == pytest.approx(2.0)
    assert paced(0.05, kilobytes=600, each=500_000) == MOST_SECONDS
