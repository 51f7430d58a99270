"""Nobody takes more than a share of the training set, however much it sends."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.messages import PeerId, Round
from swarm_node.rollouts.groups import Group
from swarm_node.rollouts.inbox import Inbox
from swarm_node.rollouts.shares import HERE_SECONDS, OTHERS, Shares, party_of
from tests.groups import external
from tests.models import text_group


def offered(author: str, round: int = 0, index: int = 0, party: str = "") -> Group:
    group = external(text_group([0.0, 1.0], ["a", "b"], author=author, round=round, index=index))
    return replace(group, party=party).scored((0.0, 1.0))


def supply(rng: Random, now: int, rates: Mapping[str, float]) -> list[Group]:
    """What arrives in a round: of each author so many groups on average."""
    arriving = list[Group]()
    for author, rate in rates.items():
        count = int(rate) + (rng.random() < rate % 1.0)
        arriving += [offered(author, now, index) for index in range(count)]
    return arriving


def trained_on(
    rates: Mapping[str, float], rounds: int, wanted: int, seconds: float, serves: int = 6
) -> Counter[str]:
    """How many places each author had in so many rounds, which take `seconds`."""
    rng, places = Random(1), Counter[str]()
    inbox = Inbox(PeerId("me"), serves, 5.0, shares=Shares())
    for now in range(rounds):
        inbox.arrive(supply(rng, now, rates), Round(now))
        draw = inbox.draw()
        order = inbox.in_turn(rng.sample(inbox.candidates(), len(inbox.candidates())))
        scored = inbox.look(draw, order[:wanted], scored_alike)
        draw.passed, draw.chosen = scored, scored
        inbox.settle(draw, Round(now))
        places.update(map(party_of, inbox.serve(wanted, seconds * now, rng)))
    return places


def scored_alike(groups: Sequence[Group]) -> list[Group]:
    return [group.scored((0.0, 1.0)) for group in groups]


@pytest.mark.slow
def test_a_flooder_gets_no_more_than_the_others_where_they_leave_places_empty() -> None:
    """Drawn by chance alone it had nine of ten places."""
    honest = {name: 0.3 for name in ("ann", "bob", "cat", "dan")}
    places = trained_on({**honest, "flooder": 16.0}, 2000, 4, 0.5, serves=1)
    assert places["flooder"] <= 1.1 * places.total() / 5
    assert min(places[name] for name in honest) >= 0.8 * places.total() / 5


@pytest.mark.slow
def test_a_flooder_gets_no_more_than_the_others_where_groups_serve_again() -> None:
    honest = {name: 0.1 for name in ("ann", "bob", "cat", "dan")}
    places = trained_on({**honest, "flooder": 16.0}, 2000, 4, 0.2)
    assert places["flooder"] <= 1.1 * places.total() / 5


def test_who_says_little_or_has_left_holds_nobody_back() -> None:
    rates = {"ann": 2.0, "bob": 2.0, "cat": 2.0, "shy": 0.01}
    places = trained_on(rates, 1000, 4, 1.0, serves=1)
    assert places["shy"] < 40
    assert sum(places[name] for name in ("ann", "bob", "cat")) >= 0.95 * 4 * 1000


def test_two_peers_of_whom_one_is_quick_do_not_hold_each_other_back() -> None:
    places = trained_on({"card": 4.0, "laptop": 0.1}, 500, 4, 1.0, serves=1)
    assert OTHERS == 2 and places.total() >= 0.98 * 4 * 500


def test_a_quick_peer_among_slow_ones_is_held_to_their_level_as_a_flooder_is() -> None:
    """What the bound costs: nobody knows an honest peer with a card from a flooder. Of 1,600
    places fewer than 150 are taken, and the card's groups wait beside the empty ones.
    """
    slow = {"laptop": 0.1, "netbook": 0.1, "phone": 0.1}
    places = trained_on({"card": 4.0, **slow}, 400, 4, 1.0, serves=1)
    assert places["card"] <= 2 * max(places[name] for name in slow)
    assert places.total() < 150


def test_a_party_is_one_however_many_authors_it_has_and_its_authors_take_turns() -> None:
    shares = Shares()
    sybils = [offered(f"sybil{number}", party="20.0.0.0/24") for number in range(8)]
    loud = [offered("sybil0", index=index, party="20.0.0.0/24") for index in range(1, 4)]
    honest = [offered(name) for name in ("ann", "bob")]
    shares.arrived([*sybils, *honest], Round(0))
    order = shares.in_turn([*loud, *sybils, *honest])
    assert [party_of(group) for group in order[:3]] == ["20.0.0.0/24", "ann", "bob"]
    assert Counter(map(party_of, order[:4]))["20.0.0.0/24"] == 2
    assert [group.author for group in order if group.party] == ["sybil0", "sybil1"]


def test_a_newcomer_begins_where_the_others_are() -> None:
    shares = Shares()
    for now in range(20):
        shares.arrived([offered("ann"), offered("bob"), offered("cat")], Round(now))
        shares.pass_round(float(now))
        shares.took([offered("ann"), offered("bob"), offered("cat")])
    late = [offered("new", index=index) for index in range(9)]
    shares.arrived(late, Round(20))
    order = shares.in_turn([*late, offered("ann"), offered("bob")])
    assert 1 <= [party_of(group) for group in order].count("new") <= 3


def test_who_was_away_is_not_compared_with() -> None:
    shares = Shares()
    shares.pass_round(1.0)
    shares.arrived([offered("ann"), offered("bob"), offered("cat")], Round(0))
    assert shares.level("ann") == 0.0
    shares.pass_round(2.0 + HERE_SECONDS)
    shares.arrived([offered("ann")], Round(9))
    assert shares.level("ann") is None


AUTHORS = st.sampled_from(["ann", "bob", "cat", "dan", "eve"])


@given(
    st.lists(st.tuples(AUTHORS, st.integers(0, 5), st.integers(0, 2)), max_size=30),
    st.lists(AUTHORS, max_size=30),
)
def test_in_any_order_of_groups_the_poorest_comes_first_and_none_comes_twice(
    arriving: list[tuple[str, int, int]], earlier: list[str]
) -> None:
    shares = Shares()
    groups = [
        offered(author, round, index, f"network of {author}" if round % 2 else "")
        for author, round, index in dict.fromkeys(arriving)
    ]
    shares.arrived(groups, Round(0))
    shares.took(offered(author) for author in earlier)
    order = shares.in_turn(groups)
    assert len(set(map(id, order))) == len(order) and set(map(id, order)) <= set(map(id, groups))
    counts = Counter[str](earlier)
    level_before = -1.0
    for group in order:
        party = party_of(group)
        able = [counts[party_of(other)] for other in order[order.index(group) :]]
        assert counts[party] >= level_before or counts[party] == min(able)
        assert counts[party] == min(able)
        counts[party] += 1
