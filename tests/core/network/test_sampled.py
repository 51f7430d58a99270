"""A node that trains nothing looks at a few groups, to say what its swarm works on."""

from swarm_node.network.process.service import OTHERS, SampledTasks
from tests.exchanges import Swarm


def test_groups_that_are_looked_at_are_counted_by_task_and_held_for_nobody() -> None:
    swarm, tasks = Swarm(), SampledTasks()
    watcher = swarm.add(want=0, groups=0)
    swarm.add_many(3)
    for _ in range(12):
        swarm.run(15.0)
        swarm.world.perform(watcher, swarm.exchanges[0].look(1, swarm.world.now))
    swarm.run(15.0)
    came = swarm.pulled(watcher)
    assert 6 <= len(came) <= 12
    assert len({group.author for group in came}) > 1
    for _, delivery in watcher.delivered:
        tasks.take(delivery)
    assert sum(tasks.counts().values()) == len(came)
    held = swarm.exchanges[0]._knowledge.store
    assert len(held) <= 1


def test_a_task_that_one_node_names_is_not_shown_by_name() -> None:
    swarm, tasks = Swarm(), SampledTasks()
    watcher = swarm.add(want=0, groups=0)
    swarm.add()
    for _ in range(4):
        swarm.run(15.0)
        swarm.world.perform(watcher, swarm.exchanges[0].look(1, swarm.world.now))
    for _, delivery in watcher.delivered:
        tasks.take(delivery)
    assert tasks.counts().keys() == {OTHERS}
