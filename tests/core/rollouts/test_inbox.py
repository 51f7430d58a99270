"""The inbox: every external group has one state, is bounded in age, number and per peer, is chosen
once, and comes back from a snapshot.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from protocol.messages import PeerId, Round
from swarm_node.node.asynchronous import MAX_AHEAD
from swarm_node.rollouts.groups import Group, Refused, Skipped
from swarm_node.rollouts.inbox import MAX_ANSWERED, MAX_ASKED, Inbox, Key, Result, key_of
from tests.groups import external
from tests.models import text_group

ME = PeerId("me")
INFORMATIVE, UNINFORMATIVE = (0.0, 1.0), (1.0, 1.0)


def received(author: str = "ann", round: int = 0, index: int = 0, text: str = "a"):
    return external(text_group([0.0, 1.0], [text, "b"], author=author, round=round, index=index))


def inbox_of(**limits) -> Inbox:
    return Inbox(ME, **limits)


def scorer(rewards: Sequence[float] = INFORMATIVE, **reasons: str):
    """Scores all groups alike, except those of the authors named: they cannot be scored."""

    def score(groups: Sequence[Group]) -> list[Result]:
        return [
            Skipped(reasons[group.author]) if group.author in reasons else group.scored(rewards)
            for group in groups
        ]

    return score


def take(inbox: Inbox, groups: Sequence[Group], now: int = 0, score=None, count: int = 99):
    """A round that looks at these groups, and chooses up to `count` informative ones. Returns what
    the network is told: of which author's group, whether it was useful, and why not.
    """
    draw = inbox.draw()
    scored = inbox.look(draw, groups, score or scorer())
    draw.passed = [group for group in scored if group.informative]
    draw.chosen = draw.passed[:count]
    verdicts = inbox.settle(draw, Round(now))
    return [(verdict.group.author, verdict.useful, verdict.fault) for verdict in verdicts]


# Arrival, age and quotas


@pytest.mark.parametrize(("max_age", "sizes"), [(2, [1, 1, 1, 0]), (0, [1, 0, 0, 0])])
def test_a_group_stays_for_its_age_by_local_arrival_and_no_longer(max_age, sizes) -> None:
    inbox, found = inbox_of(max_age=max_age), []
    for now in range(4):
        # The sender's round does not matter
        inbox.arrive([received(round=1_000_000)] if now == 0 else [], Round(5 + now))
        found.append(len(inbox))
    assert found == sizes


def test_a_second_group_for_the_same_question_of_the_same_author_is_ignored() -> None:
    inbox = inbox_of()
    inbox.arrive([received(text="first"), received(text="second")], Round(0))
    inbox.arrive([received(text="third")], Round(1))
    assert inbox.candidates() == [received(text="first")]


def test_one_loud_peer_keeps_its_newest_and_leaves_room_for_others() -> None:
    inbox = inbox_of(max_per_peer=3)
    inbox.arrive([received(index=0), received("bob")], Round(0))
    inbox.arrive([received(index=index) for index in range(1, 50)], Round(1))
    assert inbox.candidates() == [
        received("bob"),
        received(index=47),
        received(index=48),
        received(index=49),
    ]


def test_a_full_inbox_lets_the_oldest_go() -> None:
    inbox = inbox_of(max_groups=3)
    inbox.arrive([received(f"peer{k}") for k in range(5)], Round(0))
    assert inbox.candidates() == [received(f"peer{k}") for k in (2, 3, 4)]


# A round's choice


def test_a_group_is_scored_once_even_if_it_is_chosen_in_a_later_round() -> None:
    inbox, calls = inbox_of(), list[str]()

    def counting(groups: Sequence[Group]) -> list[Result]:
        calls.extend(group.author for group in groups)
        return scorer()(groups)

    inbox.arrive([received("ann"), received("bob")], Round(0))
    assert take(inbox, inbox.candidates(), 0, counting, count=1) == [("ann", True, "")]
    assert [group.author for group in inbox.candidates()] == ["bob"]
    assert inbox.candidates()[0].rewards == INFORMATIVE
    assert take(inbox, inbox.candidates(), 1, counting) == [("bob", True, "")]
    assert calls == ["ann", "bob"]


def test_what_teaches_nothing_or_cannot_be_scored_is_done_and_the_network_is_told() -> None:
    inbox = inbox_of()
    inbox.arrive([received("ann"), received("bob")], Round(0))
    told = take(inbox, inbox.candidates(), 0, scorer(UNINFORMATIVE, bob="scoring failed"))
    assert told == [("ann", False, ""), ("bob", False, "scoring failed")]
    inbox.arrive([received("ann"), received("bob")], Round(1))
    assert len(inbox) == 0 and inbox.counts()["done"] == 2


def test_what_was_scored_ahead_in_vain_is_looked_at_first_in_the_next_round() -> None:
    inbox = inbox_of()
    inbox.arrive([received("ann"), received("eve")], Round(0))
    _, eve = inbox.waiting()
    inbox.scored(eve, Skipped("scoring timeout"))
    assert [group.author for group in inbox.candidates()] == ["ann"]
    assert take(inbox, inbox.candidates())[0] == ("eve", False, "scoring timeout")


def test_a_result_of_a_group_that_was_forgotten_meanwhile_is_left_out() -> None:
    inbox = inbox_of(max_age=0)
    inbox.arrive([received(text="first")], Round(0))
    (lent,) = inbox.waiting()
    inbox.arrive([], Round(1))
    inbox.arrive([received(text="second")], Round(2))
    inbox.scored(lent, lent.scored(INFORMATIVE))
    assert inbox.with_rewards() == [] and inbox.waiting() == [received(text="second")]


def test_a_sampler_cannot_choose_a_group_that_it_was_not_given() -> None:
    inbox = inbox_of()
    inbox.arrive([received("ann")], Round(0))
    draw = inbox.draw()
    draw.chosen = [received("bob").scored(INFORMATIVE)]
    with pytest.raises(ValueError, match="not among those it was given"):
        inbox.settle(draw, Round(0))


def test_a_shunned_author_leaves_with_its_groups_and_returns_when_they_would_have_aged() -> None:
    inbox = inbox_of(max_age=2)
    inbox.arrive([received("mallory", index=k) for k in range(4)] + [received("ann")], Round(0))
    take(inbox, inbox.candidates()[:1], 0, scorer(mallory="scoring timeout"))
    assert [group.author for group in inbox.candidates()] == ["ann"]
    sizes = []
    for now in (1, 2, 3):
        inbox.arrive([received("mallory", index=10 + now)], Round(now))
        sizes.append(sum(group.author == "mallory" for group in inbox.candidates()))
    assert sizes == [0, 0, 1]


def test_a_group_that_was_trained_on_never_comes_again_however_it_is_spelt_and_however_late() -> (
    None
):
    """A round may take 50 ms: a group is too old after three of them, and serves for longer."""
    inbox = inbox_of(rounds=6, seconds=5.0)
    inbox.arrive([received()], Round(0))
    take(inbox, inbox.candidates())
    for now in range(40):
        inbox.arrive([received(text=f"a{now}")], Round(now))
        inbox.serve(1, 0.05 * now, Random(0))
    assert len(inbox) == 0 and inbox.counts()["arrived"] == 1
    again = inbox_of()
    again.restore(json.loads(json.dumps(inbox.snapshot())))
    again.arrive([received(text="b")], Round(50))
    assert len(again) == 0


def test_only_so_many_names_are_remembered_the_newest() -> None:
    inbox = inbox_of()
    for now in range(MAX_ANSWERED + 1):
        inbox.arrive([received(round=now)], Round(now))
        take(inbox, inbox.candidates(), now)
    late = Round(MAX_ANSWERED + 10)
    inbox.arrive([received(round=0), received(round=1)], late)
    assert [group.round for group in inbox.candidates()] == [0]


def test_a_near_copy_of_another_authors_group_is_left_and_nobody_is_charged() -> None:
    def told(author: str, text: str, index: int = 0) -> Group:
        group = received(author, index=index, text=text)
        return replace(group, prompt="What is 6 times 7?")

    inbox, text = inbox_of(), "First I take six times seven, which is six times six and six more."
    inbox.arrive([told("ann", text)], Round(0))
    assert take(inbox, inbox.candidates()) == [("ann", True, "")]
    inbox.arrive([told("eve", text.replace("more", "most"))], Round(1))
    draw = inbox.draw()
    assert inbox.look(draw, inbox.candidates(), scorer()) == []
    assert [group.author for group in draw.copies] == ["eve"]
    (verdict,) = inbox.settle(draw, Round(1))
    assert (verdict.group.author, verdict.useful, verdict.fault) == ("eve", False, "")
    other = "Seven and seven are fourteen; three times that much is forty-two, I think."
    inbox.arrive([told("bob", other)], Round(2))
    assert take(inbox, inbox.candidates(), 2) == [("bob", True, "")]


def test_of_each_peer_is_known_how_many_groups_came_and_what_became_of_them() -> None:
    inbox = inbox_of()
    inbox.arrive([received("ann", index=index) for index in range(3)], Round(0))
    inbox.arrive([received("eve"), received("bob")], Round(0))
    first, second, third, eve, bob = inbox.candidates()
    draw = inbox.draw()
    inbox.look(draw, [first], scorer((0.0, 1.0)))
    inbox.look(draw, [second], scorer((1.0, 1.0)))
    inbox.look(draw, [third, eve], scorer((0.5, 1.0), eve="scoring failed"))
    draw.chosen, draw.refused = draw.considered[:1], [Refused(PeerId("ann"), "longer than local")]
    inbox.settle(draw, Round(0))
    ann, eve, bob = (inbox.peers()[PeerId(name)] for name in ("ann", "eve", "bob"))
    assert (ann.arrived, ann.scored, ann.informative, ann.refused, ann.chosen) == (3, 3, 2, 1, 1)
    assert ann.reward == pytest.approx((0.5 + 1.0 + 0.75) / 3)
    assert (eve.arrived, eve.unscored, eve.scored, eve.reward) == (1, 1, 0, None)
    assert (bob.arrived, bob.scored) == (1, 0)


# Comparisons


def test_a_question_of_another_node_is_asked_once_and_its_answer_finds_the_group() -> None:
    first, second, inbox = (
        text_group([0.0, 1.0], ["a", "b"]),
        text_group([0.0, 1.0], ["c", "d"], index=1),
        inbox_of(),
    )
    inbox.compare([first, second, first])
    assert (inbox.questions(), inbox.questions()) == ([first.question, second.question], [])
    local = text_group([1.0, 0.0], ["e", "f"], index=1)
    assert inbox.answered([local, text_group([1.0, 0.0], ["e", "f"], index=2)]) == [(local, second)]
    assert inbox.answered([local]) == []


def test_the_questions_of_all_rounds_that_are_under_way_find_their_groups() -> None:
    """An asynchronous node with places to fill asks twelve in a round, sixty-four rounds ahead."""
    inbox, asked = inbox_of(), []
    for now in range(MAX_AHEAD):
        groups = [text_group([0.0, 1.0], ["a", "b"], round=now, index=k) for k in range(12)]
        inbox.compare(groups)
        asked += inbox.questions()
    local = [replace(text_group([1.0, 0.0], ["e", "f"]), question=question) for question in asked]
    assert len(inbox.answered(local)) == 12 * MAX_AHEAD


def test_of_rounds_that_are_lost_again_and_again_the_newest_questions_are_remembered() -> None:
    inbox = inbox_of()
    asked = [divmod(number, 200) for number in range(MAX_ASKED + 1)]
    groups = [text_group([0.0, 1.0], ["a", "b"], round=now, index=index) for now, index in asked]
    for group in groups:
        inbox.compare([group])
        assert inbox.questions() == [group.question]
    assert inbox.answered(groups[:1]) == []
    assert len(inbox.answered(groups[1:])) == MAX_ASKED


# Checkpoints


def test_a_snapshot_survives_json_and_brings_back_what_waits_and_what_is_spent() -> None:
    inbox, again = inbox_of(), inbox_of()
    inbox.arrive([received(), received("bob")], Round(0))
    inbox.arrive([received("cat", index=2)], Round(1))
    take(inbox, [received("bob")], 1)
    again.restore(json.loads(json.dumps(inbox.snapshot())))
    assert again.candidates() == inbox.candidates() and again.snapshot()["waiting"]
    assert sorted(again.snapshot()["spent"]) == sorted(inbox.snapshot()["spent"])
    for both in (inbox, again):
        both.arrive([received("bob"), received("dan")], Round(3))  # ann is too old, bob was used
    assert again.candidates() == inbox.candidates() == [received("cat", index=2), received("dan")]


def test_a_snapshot_has_no_rewards_for_the_next_verifier_may_be_another() -> None:
    inbox, again = inbox_of(), inbox_of()
    inbox.arrive([received()], Round(0))
    (lent,) = inbox.waiting()
    inbox.scored(lent, lent.scored(INFORMATIVE))
    again.restore(json.loads(json.dumps(inbox.snapshot())))
    assert inbox.waiting() == [] and again.waiting() == [received()]


def test_a_checkpoint_of_version_0_1_brings_back_names_and_leaves_out_groups_without_an_id() -> (
    None
):
    inbox = inbox_of()
    waiting = [(0, received("ann").message().model_dump_json())]
    spent = [(0, f"bob {received('bob').question.model_dump_json()}")]
    inbox.restore({"waiting": waiting, "spent": spent})
    assert inbox.candidates() == []
    inbox.arrive([received("ann"), received("bob")], Round(1))
    assert inbox.candidates() == [received("ann")]


# Properties


def held_by(inbox: Inbox) -> list[Key]:
    """The names of all groups that wait or were scored, with rewards or without."""
    scored = [*map(key_of, inbox.with_rewards()), *inbox.draw().faults]
    return [*map(key_of, inbox.waiting()), *scored]


class Life(RuleBasedStateMachine):
    """Anything that may happen to an inbox, in any order, beside a record of what was taken in."""

    authors = st.sampled_from(["ann", "bob", "cat", "me"])
    arrivals = st.lists(st.tuples(authors, st.integers(0, 5)), max_size=8)

    @initialize(
        max_age=st.integers(0, 3),
        most=st.integers(1, 6),
        per_peer=st.integers(1, 3),
        rounds=st.sampled_from([1, 2, 6]),
    )
    def begin(self, max_age: int, most: int, per_peer: int, rounds: int) -> None:
        self.max_age, self.most, self.per_peer, self.rounds = max_age, most, per_peer, rounds
        self.inbox = Inbox(ME, rounds, 3.0, max_age=max_age, max_groups=most, max_per_peer=per_peer)
        self.now, self.seconds, self.random = Round(0), 0.0, Random(0)
        self.arrived: dict[Key, int] = {}  # the round in which it last arrived
        self.chosen: dict[Key, int] = {}  # the round of arrival of those that were chosen
        self.shunned: dict[str, int] = {}
        # Each group that serves, with the times at which it did. Two of one name may serve
        self.services: list[tuple[Group, list[float]]] = []

    @rule(sent=arrivals, later=st.booleans())
    def receive(self, sent: list[tuple[str, int]], later: bool) -> None:
        self.arrive(sent, later)

    def arrive(self, sent: list[tuple[str, int]], later: bool) -> None:
        self.now = Round(self.now + later)
        before = set(held_by(self.inbox))
        self.inbox.arrive([received(author, index=index) for author, index in sent], self.now)
        held = held_by(self.inbox)
        for key in set(held) - before:
            self.arrived[key] = self.now
        assert len(set(held)) == len(held) == len(self.inbox) <= self.most
        assert max(Counter(author for author, _ in held).values(), default=0) <= self.per_peer
        assert ME not in {author for author, _ in held}
        assert all(self.now - self.arrived[key] <= self.max_age for key in held)
        young = {key for key, at in self.chosen.items() if self.now - at <= self.max_age}
        assert young.isdisjoint(held), "none is taken in again while it is remembered"
        away = {author for author, at in self.shunned.items() if self.now - at <= self.max_age}
        assert away.isdisjoint(author for author, _ in held)

    @precondition(lambda self: self.inbox.waiting())
    @rule(data=st.data(), hangs=st.booleans())
    def score_ahead(self, data: st.DataObject, hangs: bool) -> None:
        group = data.draw(st.sampled_from(self.inbox.waiting()))
        self.inbox.scored(group, Skipped("scoring crashed") if hangs else group.scored((0.0, 1.0)))

    @precondition(lambda self: self.inbox.with_rewards())
    @rule(data=st.data())
    def score_a_second_time(self, data: st.DataObject) -> None:
        scored = self.inbox.with_rewards()
        group = data.draw(st.sampled_from(scored))
        self.inbox.scored(group, group.scored(UNINFORMATIVE))
        assert self.inbox.with_rewards() == scored

    @rule(
        sent=arrivals,
        look=st.integers(0, 6),
        count=st.integers(0, 3),
        kind=st.sampled_from(["informative", "informative", "same", "hung"]),
        seconds=st.sampled_from([0.0, 1.0, 9.0]),
    )
    def play_a_round(
        self, sent: list[tuple[str, int]], look: int, count: int, kind: str, seconds: float
    ) -> None:
        """Groups arrive; it looks at some candidates, chooses some of those, and takes what
        serves.
        """
        self.arrive([*sent, ("bob", self.now % 6), ("cat", self.now % 6)], later=True)
        candidates = self.inbox.candidates()
        order = self.random.sample(candidates, min(look, len(candidates)))
        reasons = {"ann": "scoring timeout"} if kind == "hung" else {}
        score = scorer(UNINFORMATIVE if kind == "same" else INFORMATIVE, **reasons)
        draw = self.inbox.draw()
        scored = self.inbox.look(draw, order, score)
        assert not {group.author for group in scored} & draw.hung
        draw.passed = [group for group in scored if group.informative]
        draw.chosen = draw.passed[:count]
        verdicts = self.inbox.settle(draw, self.now)
        left, chosen = held_by(self.inbox), set(map(key_of, draw.chosen))
        for verdict in verdicts:
            key = key_of(verdict.group)
            assert key not in left and verdict.group.samples
            assert verdict.useful == (key in chosen)
            self.chosen[key] = self.arrived[key]
        self.shunned |= dict.fromkeys(draw.hung, self.now)
        assert draw.hung.isdisjoint(author for author, _ in left)
        self.serve(count, chosen, seconds)

    def serve(self, wanted: int, chosen: set[Key], seconds: float) -> None:
        self.seconds += seconds
        served = self.inbox.serve(wanted, self.seconds, self.random)
        assert len({id(group) for group in served}) == len(served) <= max(wanted, len(chosen))
        assert chosen <= set(map(key_of, served))
        for group in served:
            earlier = [times for other, times in self.services if other is group]
            times = earlier[0] if earlier else []
            times.append(self.seconds)
            assert len(times) <= self.rounds and times[-1] - times[0] <= 3.0
            self.services += [] if earlier else [(group, times)]

    @rule()
    def restart(self) -> None:
        snapshot = json.loads(json.dumps(self.inbox.snapshot()))
        waiting, counts = len(self.inbox), self.inbox.counts()
        self.inbox = Inbox(
            ME,
            self.rounds,
            3.0,
            max_age=self.max_age,
            max_groups=self.most,
            max_per_peer=self.per_peer,
        )
        self.inbox.restore(snapshot)
        assert len(self.inbox) == waiting and self.inbox.counts()["done"] >= counts["done"]
        self.shunned = {}

    @invariant()
    def no_group_is_lost_or_in_two_states(self) -> None:
        counts = self.inbox.counts()
        states = counts["waiting"] + counts["scored"] + counts["serving"] + counts["done"]
        assert counts["arrived"] == states + counts["forgotten"]
        assert len(self.inbox) == counts["waiting"] + counts["scored"]
        held = held_by(self.inbox)
        assert len(set(held)) == len(held) == len(self.inbox)
        assert len(self.inbox.waiting()) == counts["waiting"]


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=30)


ARRIVALS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cat", "me"]),
        st.integers(0, 5),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=40,
)


@given(ARRIVALS, st.integers(0, 3), st.integers(1, 6), st.integers(1, 3))
def test_no_order_of_arrivals_breaks_a_bound_or_brings_a_used_group_back(
    arrivals, max_age, most, per_peer
) -> None:
    inbox = inbox_of(max_age=max_age, max_groups=most, max_per_peer=per_peer)
    arrived: dict[Key, int] = {}
    used: dict[Key, int] = {}  # key -> round of arrival
    for now, (author, index, _, draw) in enumerate(arrivals):
        before = inbox.candidates()
        inbox.arrive([received(author, index=index)], Round(now))
        held = inbox.candidates()
        arrived |= {key_of(group): now for group in held if group not in before}
        assert len(held) == len(inbox) <= most and len(set(map(key_of, held))) == len(held)
        assert all(
            sum(group.author == who for group in held) <= per_peer for who in ("ann", "bob", "cat")
        )
        assert not any(group.author == ME for group in held)
        assert all(now - arrived[key_of(group)] <= max_age for group in held)
        assert not any(
            now - used[key_of(group)] <= max_age for group in held if key_of(group) in used
        )
        if draw and held:
            take(inbox, held[:1], now)
            used[key_of(held[0])] = arrived[key_of(held[0])]
