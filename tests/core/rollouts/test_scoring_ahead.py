"""External groups scored ahead: within a budget, and an author whose groups hang a scorer harms
only itself.
"""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from protocol.messages import PeerId, Round
from swarm_node.rollouts.groups import Group, Skipped
from swarm_node.rollouts.inbox import Inbox, key_of
from swarm_node.rollouts.scoring_ahead import (
    AHEAD,
    QUICK,
    STRANGERS,
    TOGETHER,
    ScoringAhead,
    ScoringInStep,
    TimeAllowance,
)
from swarm_node.rollouts.shares import Shares
from swarm_node.scoring import contract
from swarm_node.scoring.building import LENIENCE
from tests.groups import external, scored
from tests.models import text_group
from tests.waiting import until

HONEST, HANG = 0.002, 1.0  # seconds that scoring a group takes
# At most, for a slow question and one to compare it with
SLOW = (LENIENCE + 1) * contract.QUESTION_BUDGET
LOCAL = [text_group([0.0, 1.0], ["right", "b"], author="me")]  # of this node


class Verifier:
    """A scorer with a clock of its own. The first text of a group says how scoring it goes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.scored: list[str] = []  # authors
        self.spent = 0.0

    def __call__(self, groups: Sequence[Group]) -> list[Group | Skipped]:
        return [self._one(each) for each in groups]

    def _one(self, each: Group) -> Group | Skipped:
        text = each.episodes[0].text
        seconds = {"hang": HANG, "slow": SLOW}.get(text, HONEST)
        self.now += seconds
        if each.author != "me":  # a group of "me" is local, and only measured
            self.scored.append(each.author)
            self.spent += seconds
        reason = {"hang": contract.TIMEOUT, "slow": contract.SLOW_QUESTION}.get(text)
        return (
            Skipped(reason) if reason else scored(each, "?", (0.0, 0.0 if text == "same" else 1.0))
        )


def group(author: str, index: int = 0, text: str = "right") -> Group:
    return external(text_group([0.0, 1.0], [text, "b"], author=author, index=index))


@pytest.fixture
def verifier() -> Verifier:
    return Verifier()


@pytest.fixture
def scoring(verifier: Verifier) -> ScoringAhead:
    return ScoringAhead(verifier, lambda: verifier.now, Random(1))


def inbox_with(waiting: Sequence[Group]) -> Inbox:
    """An inbox in which these groups wait, however many an author has."""
    inbox = Inbox(PeerId("me"), max_per_peer=len(waiting))
    inbox.arrive(waiting, Round(0))
    return inbox


def work(scoring: ScoringAhead) -> None:
    while scoring.work():
        pass


def rounds(
    scoring: ScoringAhead,
    verifier: Verifier,
    count: int,
    waiting: Callable[[int], list[Group]],
    wanted: int = 2,
) -> int:
    """Runs `count` rounds of at least a tenth of a second. Returns how many groups were ready, over
    all rounds. In each round other groups wait, but a group that was there before has its result.
    """
    ready = 0
    before = Inbox(PeerId("me"))
    for now in range(count):
        began = verifier.now
        inbox = inbox_with(waiting(now))
        results = {key_of(result): result for result in before.with_rewards()}
        for group in inbox.waiting():
            if key_of(group) in results:
                inbox.scored(group, results[key_of(group)])
        ready += len(scoring.candidates(inbox, wanted, LOCAL))
        work(scoring)
        verifier.now = max(began + 0.1, verifier.now)
        before = inbox
    return ready


def test_in_step_everything_that_waits_is_ready_and_nothing_is_scored_before_it_is_asked_for() -> (
    None
):
    verifier, waiting = Verifier(), [group("ann"), group("bob")]
    scoring = ScoringInStep(verifier)
    assert scoring.candidates(inbox_with(waiting), 1, LOCAL) == waiting and verifier.scored == []
    assert [type(result) for result in scoring.score(waiting[:1])] == [
        Group
    ] and verifier.scored == ["ann"]


def test_in_step_all_is_scored_before_a_sampler_that_reads_rewards_is_asked() -> None:
    verifier, inbox = Verifier(), inbox_with([group("ann"), group("eve", text="hang")])
    candidates = ScoringInStep(verifier).candidates(inbox, 1, LOCAL, with_rewards=True)
    assert [(candidate.author, candidate.rewards) for candidate in candidates] == [
        ("ann", (0.0, 1.0))
    ]
    assert list(inbox.draw().faults.values()) == ["scoring timeout"]


def test_ahead_no_time_goes_to_what_is_beyond_an_authors_share(verifier, scoring) -> None:
    inbox = Inbox(PeerId("me"), shares=Shares())
    flood = [group("flooder", index) for index in range(20)]
    inbox.arrive([*flood, group("ann"), group("bob")], Round(0))
    scoring.candidates(inbox, 4, LOCAL)
    verifier.now = 10.0
    scoring.candidates(inbox, 4, LOCAL)
    work(scoring)
    assert {"ann", "bob"} < set(verifier.scored)
    assert verifier.scored.count("flooder") <= 2


def test_ahead_only_what_is_scored_is_ready_and_asking_scores_nothing(verifier, scoring) -> None:
    inbox = inbox_with([group("ann"), group("bob")])
    assert scoring.candidates(inbox, 1, LOCAL) == []
    verifier.now = 10.0
    scoring.candidates(inbox, 1, LOCAL)
    work(scoring)
    before = verifier.now
    candidates = scoring.candidates(inbox, 1, LOCAL)
    assert [candidate.author for candidate in candidates] == ["ann", "bob"]
    assert [candidate.rewards for candidate in candidates] == [(0.0, 1.0)] * 2
    assert inbox.look(inbox.draw(), candidates, scoring.score) == candidates
    assert verifier.now == before


@pytest.mark.parametrize(("text", "scored"), [("right", AHEAD * 2), ("same", 40)])
def test_no_more_is_scored_than_a_round_needs_of_informative_groups(
    verifier, scoring, text, scored
) -> None:
    waiting = [group("ann", index, text) for index in range(40)]
    rounds(scoring, verifier, 50, lambda now: waiting, wanted=2)
    assert len(verifier.scored) == scored


def test_strangers_that_hang_get_their_half_of_the_budget_and_no_more(verifier, scoring) -> None:
    rounds(
        scoring,
        verifier,
        1000,
        lambda now: [group(f"minted {now} {k}", k, "hang") for k in range(8)],
    )
    # That the last group is too much is known only afterwards
    allowed = STRANGERS * verifier.now + HANG
    assert 0 < verifier.spent <= allowed and verifier.spent < 0.05 * verifier.now


def test_an_author_of_slow_questions_loses_no_reputation_and_gets_a_stranger_s_time_and_no_more(
    verifier, scoring
) -> None:
    rounds(scoring, verifier, 50, lambda now: [group("mallory", now)])
    assert scoring._known(group("mallory").author), "the best place to begin from"
    began, verifier.spent = verifier.now, 0.0
    rounds(
        scoring,
        verifier,
        1000,
        lambda now: [group("mallory", now % 32 * 8 + k, "slow") for k in range(8)],
    )
    assert not scoring._known(group("mallory").author)
    assert SLOW < verifier.spent <= STRANGERS * (verifier.now - began) + 2 * SLOW, (
        "one as known, one overspent"
    )


def test_known_authors_are_scored_in_time_while_strangers_hang(verifier, scoring) -> None:
    honest = [f"honest {k}" for k in range(4)]
    rounds(scoring, verifier, 50, lambda now: [group(author, now) for author in honest])
    verifier.scored.clear()
    lasting = [group(author, 250) for author in honest]
    ready = rounds(
        scoring,
        verifier,
        50,
        lambda now: [*lasting, *(group(f"more {now} {k}", k, "hang") for k in range(32))],
    )
    assert ready >= 4 * 45
    assert sum(author.startswith("more") for author in verifier.scored) <= 1


def test_after_a_group_that_hung_its_author_s_others_are_not_scored_and_the_fault_is_told(
    verifier, scoring
) -> None:
    inbox = inbox_with([group("mallory", index, "hang") for index in range(8)])
    verifier.now = 1000.0
    scoring.candidates(inbox, 2, LOCAL)
    work(scoring)
    assert verifier.scored == ["mallory"]
    assert scoring.candidates(inbox, 2, LOCAL) == []
    assert list(inbox.draw().faults.values()) == ["scoring timeout"]


def test_an_author_that_is_slow_without_hanging_is_a_stranger_again(verifier, scoring) -> None:
    verifier.now = 1.0
    scoring.candidates(inbox_with([group("eve")]), 2, LOCAL)
    work(scoring)
    assert scoring._known(group("eve").author)
    scoring._done(group("eve", 1), scored(group("eve", 1), "?", (0.0, 1.0)), 2 * QUICK * HONEST)
    assert not scoring._known(group("eve").author)


def test_known_authors_have_what_strangers_leave_and_are_scored_together(verifier, scoring) -> None:
    authors = [f"honest {k}" for k in range(8)]
    rounds(scoring, verifier, 50, lambda now: [group(author) for author in authors], wanted=8)
    calls: list[list[str]] = []
    scoring._score = lambda groups: (
        calls.append([each.author for each in groups]) or verifier(groups)
    )
    verifier.now += 1.0
    waiting = [group(author, index) for author in authors for index in (1, 2)]
    scoring.candidates(inbox_with(waiting), 4, LOCAL)
    work(scoring)
    assert {len(authors) for authors in calls} == {TOGETHER}
    assert all(len({*authors}) == TOGETHER for authors in calls)


def test_a_budget_is_a_share_of_time_at_least_an_honest_group_s_worth_and_is_not_saved_up() -> None:
    budget = TimeAllowance(0.05)
    assert not budget.holds
    budget.earn(0.001, least=0.01)
    assert budget.holds
    budget.spend(0.01)
    assert not budget.holds
    for _ in range(100):
        budget.earn(1.0, least=0.01)
    budget.spend(0.06)
    assert not budget.holds, "a hundred idle rounds are worth one"
    budget.spend(1.0)
    for _ in range(20):
        budget.earn(1.0, least=0.01)
    assert not budget.holds, "what was overspent is earned back first"


def test_the_thread_scores_what_waits_and_ends(verifier, scoring) -> None:
    inbox = inbox_with([group("ann"), group("bob")])
    scoring.start()
    verifier.now += 10.0
    until(lambda: len(scoring.candidates(inbox, 1, LOCAL)) == 2)
    scoring.close()
    assert not scoring._thread.is_alive()


def test_what_the_thread_dies_of_is_raised_in_the_next_round() -> None:
    def broken(groups: Sequence[Group]) -> list[Group | Skipped]:
        raise RuntimeError("no scoring process")

    scoring = ScoringAhead(broken, lambda: 0.0, Random(1))
    scoring.start()
    with pytest.raises(RuntimeError, match="no scoring process"):
        until(lambda: scoring.candidates(inbox_with([group("ann")]), 1, LOCAL) != [])
    scoring.close()
