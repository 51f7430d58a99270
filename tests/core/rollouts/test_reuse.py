"""Which external groups serve another round, and for how long."""

from random import Random

from protocol.identity import Identity
from swarm_node.rollouts.pool import Reuse
from tests.groups import group, scored

AUTHOR = Identity.create().peer_id
ONE, TWO, THREE = (scored(group(AUTHOR, index=index), "?", (0.0, 1.0)) for index in range(3))


def test_a_group_serves_so_many_rounds_and_no_more():
    reuse = Reuse(rounds=3, seconds=5.0)
    reuse.add([ONE], 0.0)
    assert [reuse.select(4, 0.1 * k, Random(0)) for k in range(4)] == [[ONE], [ONE], [], []]


def test_a_round_that_takes_long_uses_every_group_once():
    reuse = Reuse(rounds=9, seconds=5.0)
    reuse.add([ONE], 0.0)
    assert reuse.select(4, 5.1, Random(0)) == []


def test_no_more_are_taken_than_are_wanted_and_none_twice_in_a_round():
    reuse = Reuse(rounds=9, seconds=5.0)
    reuse.add([ONE, TWO, THREE], 0.0)
    assert len({id(each) for each in reuse.select(2, 0.1, Random(0))}) == 2
    assert reuse.select(0, 0.1, Random(0)) == reuse.select(-1, 0.1, Random(0)) == []


def test_where_every_group_serves_one_round_no_random_number_is_drawn():
    reuse, random = Reuse(rounds=1, seconds=5.0), Random(0)
    before = random.getstate()
    reuse.add([ONE, TWO], 0.0)
    assert reuse.select(4, 0.0, random) == [] and random.getstate() == before
