"""The generator process of an asynchronous node: `python -m swarm_node.node.generator`. Not for people.

It generates and scores rounds in the order that it receives, each with the newest published weights. Training and the
network belong to the trainer process.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from protocol.messages import Round
from swarm_node.common.channel import Channel, inherited, telling
from swarm_node.common.loading import quickly
from swarm_node.environments.registry import build_environment
from swarm_node.network.in_memory import Alone
from swarm_node.node.generator_process import (
    GENERATOR,
    FromGenerator,
    Generate,
    GeneratedMessage,
    Order,
    ToGenerator,
)
from swarm_node.rollouts.groups import ScoredGroup
from swarm_node.rollouts.interfaces import Environment, Trainer
from swarm_node.rollouts.reports import StepReport
from swarm_node.settings import LearningConfig

with quickly():
    from swarm_node.node.learner import build_node, configured_policy
    from swarm_node.policy.policy import Policy
    from swarm_node.policy.tried import Tried
    from swarm_node.policy.weights import SharedWeights

Build = Callable[[LearningConfig], tuple[Policy, Environment]]
Ours = Channel[ToGenerator, FromGenerator]


class NoTrainer(Trainer):
    """The trainer of a process that only generates: no optimiser, no reference model."""

    def update(self, groups: Sequence[ScoredGroup]) -> StepReport:
        raise NotImplementedError("the generator process does not train")


def build(config: LearningConfig) -> tuple[Policy, Environment]:
    """The policy and the environment of a generator process."""
    return configured_policy(config), build_environment(config)


def serve(build: Build) -> None:
    """Runs a generator process from start to end. If it fails, its last message says why."""
    connection = inherited()
    channel: Ours = Channel(connection, connection, GENERATOR.down, GENERATOR.up)
    with telling(channel.send):
        order = channel.receive()
        if isinstance(order, Order):
            rounds: queue.SimpleQueue[Round] = queue.SimpleQueue()
            threading.Thread(target=_read_orders, args=(channel, rounds), daemon=True).start()
            _generate_rounds(order, build, rounds, channel)


def _generate_rounds(order: Order, build: Build, rounds: "queue.SimpleQueue[Round]", channel: Ours) -> None:
    weights = SharedWeights.attach(order.descriptor, order.layout)
    policy, environment = build(order.config)
    if order.tried:
        policy.tried = Tried(Path(os.fsdecode(order.tried)))
    policy.version = -1  # the first snapshot replaces what was loaded
    node = build_node(order.config, order.peer_id, environment, Alone(), policy, trainer=NoTrainer())
    while True:
        began = time.monotonic()
        now = rounds.get()
        idle = time.monotonic() - began
        weights.take(policy)
        channel.send(GeneratedMessage(node.generate(now), idle))


def _read_orders(channel: Ours, rounds: "queue.SimpleQueue[Round]") -> None:
    try:
        while isinstance(order := channel.receive(), Generate):
            rounds.put(order.round)
    finally:
        os._exit(1)  # the trainer has gone; the scoring process ends when our end of its pipe closes


if __name__ == "__main__":
    serve(build)
