"""How rounds become announcements, whatever their pace; how often quick ones are announced, and
what bounds that.
"""

import pytest

from protocol.messages import Round
from swarm_node.network.process.messages import Publish
from swarm_node.network.process.outgoing import (
    FILLED,
    KEPT_SECONDS,
    LEAST_SECONDS,
    MAX_WANTED,
    MOST_SECONDS,
    Outgoing,
    Pace,
)
from swarm_node.network.process.outgoing import MOST_SECONDS as SECONDS


def written(number: int, count: int, want: int = 4) -> Publish:
    return Publish(
        round=Round(number),
        want=want,
        envelopes=tuple(b"%d/%d" % (number, k) for k in range(count)),
    )


def test_a_slow_round_is_announced_at_once_and_once() -> None:
    outgoing = Outgoing(3, 6000)
    outgoing.add(written(0, 9), 100.0)
    assert outgoing.due(100.0) == written(0, 9) and outgoing.due(200.0) is None
    outgoing.add(written(1, 9), 200.0)
    assert outgoing.due(200.0) == written(1, 9)


def test_quick_rounds_are_announced_together() -> None:
    outgoing = Outgoing(3, 6000)
    outgoing.add(written(0, 1), 0.0)
    assert outgoing.due(0.0) == written(0, 1)
    for number in range(1, 8):
        outgoing.add(written(number, 2, want=1), number / 10)
        assert outgoing.due(number / 10) is None
    news = outgoing.due(SECONDS)
    assert news is not None and (news.round, news.rounds, news.want, len(news.envelopes)) == (
        7,
        7,
        7,
        14,
    )
    assert news.envelopes[-1] == b"7/1"


def test_an_uninformative_round_does_not_take_back_what_was_announced() -> None:
    outgoing = Outgoing(3, 6000)
    outgoing.add(written(0, 2), 0.0)
    outgoing.due(0.0)
    for number, expected in ((1, 2), (2, 2), (3, 0)):
        now = number * (KEPT_SECONDS + 1)
        outgoing.add(written(number, 0), now)
        news = outgoing.due(now)
        assert news is not None and len(news.envelopes) == expected


def test_it_holds_and_wants_no_more_than_an_announcement_has_room_for() -> None:
    outgoing = Outgoing(3, 6000)
    for number in range(100):
        outgoing.add(written(number, 1), number / 100)
        outgoing.due(number / 100)
    news = outgoing.due(SECONDS)
    assert news is not None and news.want == MAX_WANTED
    outgoing.add(written(100, 1), 2 * SECONDS)
    news = outgoing.due(2 * SECONDS)
    assert news is not None and len(news.envelopes) == FILLED


def paced(round_seconds: float, kilobytes: int = 10_000, each: int = 1000) -> float:
    """Seconds between announcements after half a minute of such rounds, each announcement costing
    so many bytes.
    """
    pace, now, told, spent = Pace(kilobytes), 0.0, 0.0, 0
    while now < 30.0:
        pace.generated(now)
        if now - told >= pace.seconds():
            told, spent = now, spent + each
            pace.announced(now, spent)
        now += round_seconds
    return pace.seconds()


def test_it_follows_the_rounds_between_its_bounds() -> None:
    assert paced(0.05) == LEAST_SECONDS and paced(0.5) == pytest.approx(2.0)
    assert paced(0.9) == MOST_SECONDS == paced(40.0)


def test_what_a_minute_may_cost_makes_it_slower_but_never_slower_than_it_is_for_slow_rounds() -> (
    None
):
    assert paced(0.05, kilobytes=600, each=20_000) == pytest.approx(2.0)
    assert paced(0.05, kilobytes=600, each=500_000) == MOST_SECONDS
