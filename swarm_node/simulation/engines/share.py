"""A process with some of the nodes of a cell (spread.py): `python -m
swarm_node.simulation.engines.share`. A worker of a simulation starts it, users do not.

It obeys one order after the other, and answers each but the first. It ends when the socket to the
worker closes, for whatever reason, and ends the processes that it started.
"""

import threading
from collections.abc import Sequence
from contextlib import closing
from queue import SimpleQueue

from protocol.messages import Round
from swarm_node.common.batched import paired
from swarm_node.common.channel import Channel, Failed, PipeMessage, Talk, inherited, telling
from swarm_node.common.children import end_with_family
from swarm_node.common.loading import quickly
from swarm_node.network.in_memory import Outgoing, SwarmInParts
from swarm_node.rollouts.groups import RoundReport
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation import worker_messages
from swarm_node.simulation.arms import identity
from swarm_node.simulation.attacks.hostile import VictimReport, hostile_nodes

with quickly():  # it loads torch
    from swarm_node.simulation.engines.population import LivePopulation, way_of_messages

MAX_FRAME_BYTES = 1024 * 1024 * 1024  # what 1,000 nodes publish in a round

Mail = list[tuple[int, list[Outgoing]]]  # what each node has published, by its number


class Populate(PipeMessage, frozen=True):
    """The first order."""

    settings: str  # the cell's own SimulationConfig as JSON, secrets included
    nodes: list[int]  # that live in this process


class Join(PipeMessage, frozen=True):
    """Nodes join the swarm."""

    nodes: list[int]  # of all processes, as in the orders that follow


class Leave(PipeMessage, frozen=True):
    """Nodes leave the swarm."""

    nodes: list[int]


class Produce(PipeMessage, frozen=True):
    """Nodes generate a round, and publish it."""

    nodes: list[int]
    round: int


class Consume(PipeMessage, frozen=True):
    """What was published arrives; then nodes select groups, and train on them."""

    nodes: list[int]
    sent: list[Outgoing]  # by all nodes of the swarm, in order


class Evaluate(PipeMessage, frozen=True):
    """Nodes answer held-out questions."""

    nodes: list[int]


class Done(PipeMessage, frozen=True):
    """Nodes have joined or left."""


class Produced(PipeMessage, frozen=True):
    """What the nodes of this process have published."""

    mail: Mail


class Consumed(PipeMessage, frozen=True):
    """What the nodes of this process did, by their numbers."""

    reports: dict[int, RoundReport]
    attack: dict[int, dict[str, int]]  # what a `VictimReport` has besides


class Evaluated(PipeMessage, frozen=True):
    """The accuracy of the nodes of this process by task, by their numbers."""

    accuracy: dict[int, dict[str, float]]


Order = Populate | Join | Leave | Produce | Consume | Evaluate
Reply = Done | Produced | Consumed | Evaluated | Failed
SHARE: Talk[Order, Reply] = Talk(Order, Reply, MAX_FRAME_BYTES)


class Share:
    """The nodes that live in one process, among those of all processes."""

    def __init__(self, config: SimulationConfig, nodes: Sequence[int]) -> None:
        """`nodes`: that live here."""
        self._config, self._here = config, frozenset(nodes)
        self._hostile = hostile_nodes(config)
        self._swarm = SwarmInParts(**way_of_messages(config))
        self._population = LivePopulation(config, self._swarm)

    def obey(self, order: Order) -> Reply:
        """Does what an order says, for the nodes that live here."""
        match order:
            case Join(nodes):
                self._join(nodes)
            case Leave(nodes):
                self._leave(nodes)
            case Produce(nodes, number):
                return Produced(self._produce(self._of_mine(nodes), Round(number)))
            case Consume(nodes, sent):
                self._swarm.deliver(sent)
                reports = self._population.consume(self._of_mine(nodes))
                victims = {
                    node: dict(report.attack)
                    for node, report in reports.items()
                    if isinstance(report, VictimReport)
                }
                return Consumed(reports, victims)
            case Evaluate(nodes):
                mine = self._of_mine(nodes)
                accuracies = self._population.evaluate(mine)
                return Evaluated(dict(paired(mine, accuracies)))
            case Populate():
                raise AssertionError("a share begins once")
        return Done()

    def close(self) -> None:
        """Ends what was started for the nodes."""
        self._population.close()

    def _of_mine(self, nodes: Sequence[int]) -> list[int]:
        return [node for node in nodes if node in self._here]

    def _join(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            if node in self._here:
                self._population.join([node])
            elif node not in self._hostile:  # a hostile node only sends
                self._swarm.join_elsewhere(identity(self._config.seed, node).peer_id)

    def _leave(self, nodes: Sequence[int]) -> None:
        self._population.leave(self._of_mine(nodes))
        for node in nodes:
            self._swarm.leave(identity(self._config.seed, node).peer_id)

    def _produce(self, nodes: Sequence[int], now: Round) -> Mail:
        mail: Mail = []
        for node in nodes:
            self._population.produce([node], now)
            mail.append((node, self._swarm.taken()))
        return mail


Orders = SimpleQueue[Order]


def serve() -> None:
    """Does what the worker says, until the worker ends. Never raises: it sends its error."""
    connection = inherited()
    channel: Channel[Order, Reply] = Channel(connection, connection, SHARE.down, SHARE.up)
    orders = Orders()
    threading.Thread(target=_read, args=(channel, orders), daemon=True).start()
    with telling(channel.send):
        begin = orders.get()
        assert isinstance(begin, Populate)
        config = worker_messages.from_text(begin.settings)
        with closing(Share(config, begin.nodes)) as share:
            while True:
                channel.send(share.obey(orders.get()))


def _read(channel: Channel[Order, Reply], orders: Orders) -> None:
    """Queues orders, and sees the end of the worker at once, also while nodes compute."""
    try:
        while (order := channel.receive()) is not None:
            orders.put(order)
    finally:
        end_with_family()


if __name__ == "__main__":
    serve()
