"""The pool: bounded in age, number and per peer; a group is used once; a snapshot brings everything
back.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.messages import PeerId, Round
from swarm_node.rollouts.pool import RolloutPool, Unanswered
from tests.groups import external
from tests.models import text_group

ME = PeerId("me")


def received(author: str = "ann", round: int = 0, index: int = 0, text: str = "a"):
    return external(text_group([0.0, 1.0], [text, "b"], author=author, round=round, index=index))


def pool_of(**limits) -> RolloutPool:
    return RolloutPool(ME, **limits)


@pytest.mark.parametrize(("max_age", "sizes"), [(2, [1, 1, 1, 0]), (0, [1, 0, 0, 0])])
def test_a_group_stays_for_its_age_by_local_arrival_and_no_longer(max_age, sizes) -> None:
    pool, found = pool_of(max_age=max_age), []
    for now in range(4):
        # The sender's round does not matter
        pool.add([received(round=1_000_000)] if now == 0 else [], Round(5 + now))
        found.append(len(pool))
    assert found == sizes


def test_a_second_group_for_the_same_question_of_the_same_author_is_ignored() -> None:
    pool = pool_of()
    pool.add([received(text="first"), received(text="second")], Round(0))
    pool.add([received(text="third")], Round(1))
    assert pool.candidates() == [received(text="first")]


def test_one_loud_peer_keeps_its_newest_and_leaves_room_for_others() -> None:
    pool = pool_of(max_per_peer=3)
    pool.add([received(index=0), received("bob")], Round(0))
    pool.add([received(index=index) for index in range(1, 50)], Round(1))
    assert pool.candidates() == [
        received("bob"),
        received(index=47),
        received(index=48),
        received(index=49),
    ]


def test_a_full_pool_lets_the_oldest_go() -> None:
    pool = pool_of(max_groups=3)
    pool.add([received(f"peer{k}") for k in range(5)], Round(0))
    assert pool.candidates() == [received(f"peer{k}") for k in (2, 3, 4)]


def key_of(group) -> tuple[str, int]:
    return group.author, group.question.index


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
    pool = pool_of(max_age=max_age, max_groups=most, max_per_peer=per_peer)
    arrived: dict[tuple[str, int], int] = {}
    used: dict[tuple[str, int], int] = {}  # key -> round of arrival
    for now, (author, index, _, draw) in enumerate(arrivals):
        before = pool.candidates()
        pool.add([received(author, index=index)], Round(now))
        held = pool.candidates()
        arrived |= {key_of(group): now for group in held if group not in before}
        assert len(held) == len(pool) <= most and len(set(map(key_of, held))) == len(held)
        assert all(
            sum(group.author == who for group in held) <= per_peer for who in ("ann", "bob", "cat")
        )
        assert not any(group.author == ME for group in held)
        assert all(now - arrived[key_of(group)] <= max_age for group in held)
        assert not any(
            now - used[key_of(group)] <= max_age for group in held if key_of(group) in used
        )
        if draw and held:
            pool.remove(held[:1])
            used[key_of(held[0])] = arrived[key_of(held[0])]


def test_a_snapshot_survives_json_and_brings_back_what_waits_and_what_is_spent() -> None:
    pool, again = pool_of(), pool_of()
    pool.add([received(), received("bob")], Round(0))
    pool.add([received("cat", index=2)], Round(1))
    pool.remove([received("bob")])
    again.restore(json.loads(json.dumps(pool.snapshot())))
    assert again.candidates() == pool.candidates() and again.snapshot() == pool.snapshot()
    for both in (pool, again):
        both.add([received("bob"), received("dan")], Round(3))  # ann is too old now, bob was used
    assert again.candidates() == pool.candidates() == [received("cat", index=2), received("dan")]


def test_a_shunned_author_leaves_with_its_groups_and_returns_when_they_would_have_aged() -> None:
    pool = pool_of(max_age=2)
    pool.add([received("mallory", index=k) for k in range(4)] + [received("ann")], Round(0))
    pool.shun({PeerId("mallory")}, Round(0))
    assert [external.author for external in pool.candidates()] == ["ann"]
    sizes = []
    for now in (1, 2, 3):
        pool.add([received("mallory", index=10 + now)], Round(now))
        sizes.append(sum(external.author == "mallory" for external in pool.candidates()))
    assert sizes == [0, 0, 1]


def test_a_question_of_another_node_is_asked_once_and_its_answer_finds_the_group() -> None:
    first, second, unanswered = (
        text_group([0.0, 1.0], ["a", "b"]),
        text_group([0.0, 1.0], ["c", "d"], index=1),
        Unanswered(),
    )
    unanswered.add([first, second, first])
    assert (unanswered.ask(), unanswered.ask()) == ([first.question, second.question], [])
    local = text_group([1.0, 0.0], ["e", "f"], index=1)
    assert unanswered.take([local, text_group([1.0, 0.0], ["e", "f"], index=2)]) == [
        (local, second)
    ]
    assert unanswered.take([local]) == []
