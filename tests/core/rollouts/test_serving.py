"""Which external groups serve another round, and for how long."""

from collections.abc import Sequence
from random import Random

from protocol.identity import Identity
from protocol.messages import PeerId, Round
from swarm_node.rollouts.groups import Group
from swarm_node.rollouts.inbox import Inbox
from tests.groups import external, group, scored

AUTHOR = Identity.create().peer_id
ONE, TWO, THREE = (scored(group(AUTHOR, index=index), "?", (0.0, 1.0)) for index in range(3))


def inbox_of(rounds: int, *chosen: Group) -> Inbox:
    """An inbox whose groups serve so many rounds within 5 seconds. These have been chosen."""
    inbox = Inbox(PeerId("me"), rounds, 5.0)
    inbox.arrive(map(external, chosen), Round(0))
    choose(inbox, chosen)
    return inbox


def choose(inbox: Inbox, groups: Sequence[Group]) -> None:
    draw = inbox.draw()
    draw.chosen = inbox.look(draw, groups, lambda waiting: groups)
    inbox.settle(draw, Round(0))


def test_a_group_serves_so_many_rounds_and_no_more():
    inbox = inbox_of(3, ONE)
    assert [inbox.serve(4, 0.1 * k, Random(0)) for k in range(5)] == [[ONE]] * 3 + [[], []]


def test_a_round_that_takes_long_uses_every_group_once():
    inbox = inbox_of(9, ONE)
    assert inbox.serve(4, 0.0, Random(0)) == [ONE]
    assert inbox.serve(4, 5.1, Random(0)) == []


def test_no_more_are_taken_than_are_wanted_and_none_twice_in_a_round():
    inbox = inbox_of(9, ONE, TWO, THREE)
    assert inbox.serve(2, 0.0, Random(0)) == [ONE, TWO, THREE], "all that were chosen"
    assert len({id(served) for served in inbox.serve(2, 0.1, Random(0))}) == 2
    assert inbox.serve(0, 0.1, Random(0)) == inbox.serve(-1, 0.1, Random(0)) == []


def test_groups_that_served_before_fill_the_places_of_those_that_are_missing():
    inbox = inbox_of(9, ONE)
    inbox.serve(1, 0.0, Random(0))
    inbox.arrive([external(TWO)], Round(0))
    choose(inbox, [TWO])
    assert inbox.serve(3, 0.1, Random(0)) == [TWO, ONE]


def test_where_every_group_serves_one_round_no_random_number_is_drawn():
    inbox, random = inbox_of(1, ONE, TWO), Random(0)
    before = random.getstate()
    assert inbox.serve(4, 0.0, random) == [ONE, TWO]
    assert inbox.serve(4, 0.0, random) == [] and random.getstate() == before
