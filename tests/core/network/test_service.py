"""What a network service says of itself and of its swarm, and the open files that it may have."""

import pytest

from swarm_node.network.process.service import OTHERS, SampledTasks, reachability, reachability_line
from tests.commands import python
from tests.exchanges import Swarm


def watched(nodes: int, looks: int) -> tuple[Swarm, SampledTasks]:
    """A swarm after its first node has looked so often at a group of the others, and the tasks that
    it saw.
    """
    swarm, tasks = Swarm(), SampledTasks()
    watcher = swarm.add(want=0, groups=0)
    swarm.add_many(nodes)
    for _ in range(looks):
        swarm.run(15.0)
        swarm.world.perform(watcher, swarm.exchanges[0].look(1, swarm.world.now))
    swarm.run(15.0)
    for _, delivery in watcher.delivered:
        tasks.take(delivery)
    return swarm, tasks


def test_groups_that_are_looked_at_are_counted_by_task_and_held_for_nobody() -> None:
    swarm, tasks = watched(nodes=3, looks=12)
    came = swarm.pulled(swarm.members[0])
    assert 6 <= len(came) <= 12 and len({group.author for group in came}) > 1
    assert sum(tasks.counts().values()) == len(came)
    assert len(swarm.exchanges[0]._knowledge.store) <= 1


def test_a_task_that_one_node_names_is_not_shown_by_name() -> None:
    _, tasks = watched(nodes=1, looks=4)
    assert tasks.counts().keys() == {OTHERS}


@pytest.mark.parametrize(
    ("addresses", "kind"),
    [
        ([], "outbound only"),
        (["/ip4/127.0.0.1/tcp/1"], "loopback only"),
        (["/ip6/::1/tcp/1", "/ip4/192.168.1.5/tcp/1"], "local network"),
        (["/ip4/192.168.1.5/tcp/1", "/ip4/8.8.4.4/tcp/1/p2p-circuit"], "relayed"),
        # The direct one is the NAT's
        (["/ip4/8.8.8.8/udp/1/quic-v1", "/ip4/8.8.4.4/tcp/1/p2p-circuit"], "relayed"),
        (["/ip4/127.0.0.1/tcp/1", "/ip4/8.8.4.4/tcp/1"], "public"),
        (["/dns4/node.example/tcp/1"], "public"),
    ],
)
def test_the_best_address_decides(addresses: list[str], kind: str) -> None:
    assert reachability(addresses) == kind and reachability_line(addresses).startswith(
        f"network: {kind}: "
    )


PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
from swarm_node.network.process.confined import raise_limit
print(raise_limit(1024))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def limited(hard: int) -> list[str]:
    done = python("-c", PROGRAM, hard)
    return done.stdout.splitlines()


def test_the_limit_is_raised_as_far_as_wanted() -> None:
    assert limited(4096) == ["", "1024"]


def test_where_that_cannot_be_the_user_is_told() -> None:
    said, limit = limited(512)
    assert "only 512 open files" in said
    assert limit == "512"
