"""The nodes of one cell in several processes of this machine, so that a cell uses several cores.

How a round goes:

    this process                              each further process (share.py)
    ---------------------------------------   --------------------------------------
    says which nodes produce           --->   its nodes generate and publish
    its own nodes do, too
    gathers what all have published    <---   hands over what they published
    puts it in the order of the nodes
    hands all of it to each            --->   delivers it
    delivers it to its own nodes              its nodes select groups, and train
    its own nodes do, too
    gathers the reports                <---   hands over theirs

Every process holds a part of the same swarm in memory (`SwarmInParts`). All deliver the same
messages in the same order, so all draw the same random numbers for those that are lost; all other
random numbers belong to a node already. So a report is the same for any number of processes, but
for the times in it. A test compares them.

A process needs about 3 s and half a gigabyte to start, and where models have adapters, a copy of
the frozen weights. Not for graphics cards: there the nodes of a cell share one card.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, TypeVar

from protocol.messages import Round
from swarm_node.common.channel import Channel, Failed, PipeMessage
from swarm_node.common.children import ChildKilled, ending, start
from swarm_node.common.errors import TemporaryError, UserError
from swarm_node.network.in_memory import Outgoing
from swarm_node.rollouts.groups import RoundReport
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation import worker_messages
from swarm_node.simulation.attacks.hostile import VictimReport, hostile_nodes
from swarm_node.simulation.cell import Population
from swarm_node.simulation.engines.share import (
    SHARE,
    Consume,
    Consumed,
    Done,
    Evaluate,
    Evaluated,
    Join,
    Leave,
    Order,
    Populate,
    Produce,
    Produced,
    Reply,
    Share,
)

COMMAND = (sys.executable, "-P", "-m", "swarm_node.simulation.engines.share")
Answer = TypeVar("Answer", bound=PipeMessage)


class SpreadPopulation(Population):
    """The nodes of a cell, in this process and in further ones."""

    def __init__(self, config: SimulationConfig, processes: int) -> None:
        """`processes`: this one included."""
        own, *parts = divided(config, processes)
        settings = worker_messages.as_text(config)
        self._remote = [RemoteShare(settings, nodes) for nodes in parts]
        self._own = Share(config, own)
        self._sent: list[Outgoing] = []  # in this round, by all nodes

    def join(self, nodes: Sequence[int]) -> None:
        self._all(Join(list(nodes)), Done)

    def leave(self, nodes: Sequence[int]) -> None:
        self._all(Leave(list(nodes)), Done)

    def produce(self, nodes: Sequence[int], now: Round) -> None:
        parts = self._all(Produce(list(nodes), now), Produced)
        by_node = {node: sent for part in parts for node, sent in part.mail}
        self._sent = [message for node in nodes for message in by_node[node]]

    def consume(self, nodes: Sequence[int]) -> dict[int, RoundReport]:
        reports: dict[int, RoundReport] = {}
        for part in self._all(Consume(list(nodes), self._sent), Consumed):
            reports |= part.reports
            reports |= {
                node: as_victim(part.reports[node], attack) for node, attack in part.attack.items()
            }
        return {node: reports[node] for node in nodes}

    def evaluate(self, nodes: Sequence[int]) -> list[dict[str, float]]:
        accuracy: dict[int, dict[str, float]] = {}
        for part in self._all(Evaluate(list(nodes)), Evaluated):
            accuracy |= part.accuracy
        return [accuracy[node] for node in nodes]

    def close(self) -> None:
        for share in self._remote:
            share.kill()
        self._own.close()

    def _all(self, order: Order, kind: type[Answer]) -> list[Answer]:
        """Gives every process the same order. They obey at the same time; returns their replies."""
        for share in self._remote:
            share.send(order)
        replies = [self._own.obey(order), *(share.reply() for share in self._remote)]
        return [reply for reply in replies if isinstance(reply, kind)]


class RemoteShare:
    """A further process, with the nodes that live there."""

    def __init__(self, settings: str, nodes: Sequence[int]) -> None:
        self._nodes = nodes
        self._process, self._connection = start(COMMAND, None, os.environ)
        self._channel = Channel(self._connection, self._connection, SHARE.up, SHARE.down)
        self.send(Populate(settings, list(nodes)))

    def send(self, order: Order) -> None:
        """Gives it an order, which it obeys when it has done the earlier ones."""
        with suppress(OSError):  # it has ended, and `reply` says how
            self._channel.send(order)

    def reply(self) -> Reply:
        """Waits for its reply to the oldest order without one. Raises what went wrong there."""
        reply = self._channel.receive()
        if isinstance(reply, Failed) and reply.by_user:
            raise (TemporaryError if reply.passing else UserError)(reply.error)
        where = f"the process of nodes {self._nodes[0]} to {self._nodes[-1]}"
        if isinstance(reply, Failed):
            raise RuntimeError(f"{where}: {reply.error}")
        if reply is None:
            code = self._process.wait()
            killed = ChildKilled(where, code) if code < 0 else None
            raise RuntimeError(f"{where} {ending(code)}") from killed
        return reply

    def kill(self) -> None:
        """Ends it, and what it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()


def divided(config: SimulationConfig, processes: int) -> list[list[int]]:
    """The nodes of each process. Neighbours stay together: lists of models and tasks are given in
    turn, so each process gets some of every kind. Hostile nodes compute little; the first process
    has them.
    """
    hostile = hostile_nodes(config)
    learners = [node for node in range(config.nodes) if node not in hostile]
    count = min(processes, len(learners))
    bounds = [len(learners) * part // count for part in range(count + 1)]
    parts = [learners[bounds[part] : bounds[part + 1]] for part in range(count)]
    parts[0] += sorted(hostile)
    return parts


def as_victim(report: RoundReport, attack: Mapping[str, int]) -> VictimReport:
    """The report of a victim, put together again."""
    values: dict[str, Any] = {
        entry.name: getattr(report, entry.name) for entry in fields(RoundReport)
    }
    return VictimReport(**values, attack=attack)
