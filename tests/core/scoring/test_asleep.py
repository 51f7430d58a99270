"""A machine that sleeps while a text is scored: nobody is charged for it, and who hangs is still
caught.
"""

import time
from functools import partial
from random import Random

import pytest

from protocol.messages import PeerId, Round
from swarm_node.common.awake import AwakeClock, Patience
from swarm_node.rollouts.groups import Group, Skipped
from swarm_node.rollouts.inbox import Inbox
from swarm_node.rollouts.scoring_ahead import ScoringAhead
from swarm_node.scoring import children, contract
from swarm_node.scoring.sandbox import Sandbox
from tests.dreams import JUMPS, Jumping
from tests.groups import external, scored
from tests.models import text_group

LIMIT = 4.0  # seconds of an item
LOOKS = 5  # at the clock, before the machine sleeps: the second step of waiting for the item


class Slow:
    """A question of which one text takes so long to score."""

    prompt = "slow"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def score(self, text: str) -> float:
        ends = time.monotonic() + self._seconds
        while text == "slow" and time.monotonic() < ends:
            pass
        return 0.5


@pytest.mark.parametrize("jump", JUMPS)
def test_a_child_that_slept_as_its_parent_did_is_awaited(
    jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Jumping()
    clock.at(LOOKS, jump)
    monkeypatch.setattr(children, "Patience", partial(Patience, clock=clock))
    assert children.score([(Slow(2.5), ["slow", "b"])], Sandbox(), LIMIT) == [[0.5, 0.5]]
    assert clock.looks >= LOOKS


def test_a_child_that_hangs_is_given_up_on_a_machine_that_sleeps_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Jumping(step=LIMIT / 8)
    clock.at(LOOKS, 3600.0)
    monkeypatch.setattr(children, "Patience", partial(Patience, clock=clock))
    assert children.score([(Slow(600.0), ["slow"])], Sandbox(), LIMIT) == [contract.TIMEOUT]


@pytest.mark.parametrize("jump", JUMPS)
def test_an_author_is_not_charged_for_the_time_in_which_the_node_slept(jump: float) -> None:
    """Else the budget for groups of others would be overspent for days."""
    now = [0.0]
    awake = AwakeClock(lambda: now[0])
    waiting = [external(text_group([0.0, 1.0], ["a", "b"], author=f"a{n}")) for n in range(6)]

    def score(groups: list[Group]) -> list[Group | Skipped]:
        now[0] += jump if not authors else 0.002
        authors.extend(group.author for group in groups)
        return [scored(group, "?", (0.0, 1.0)) for group in groups]

    authors: list[str] = []
    ahead = ScoringAhead(score, awake, Random(1))
    inbox = Inbox(PeerId("me"), max_per_peer=len(waiting))
    inbox.arrive(waiting, Round(0))
    for _ in range(200):  # rounds, of a second each
        ahead.candidates(inbox, wanted=6, local=[])
        ahead.work()
        now[0] += 1.0
    assert len(set(authors)) == len(waiting)
