"""Nodes that exchange over an event queue: the real state machines, the real bytes, an invented wire."""

from tests.exchanges import Swarm


def test_two_nodes_fetch_each_others_groups() -> None:
    swarm = Swarm().add_many(2)
    swarm.run(60)
    for member, other in (swarm.members, reversed(swarm.members)):
        groups = swarm.pulled(member)
        assert len(groups) >= 4
        assert {group.author for group in groups} == {other.peer}
