"""The generator process of an asynchronous node: `python -m swarm_node.node.generator`. Not for people.

It generates and scores rounds in the order that it receives, each with the newest published weights. Training and the
network belong to the trainer process.
"""

import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from json import loads
from pathlib import Path
from typing import Any

from protocol.messages import Round
from swarm_node.common.errors import UserError
from swarm_node.common.loading import quickly
from swarm_node.common.stdio import take_stdout
from swarm_node.environments.registry import build_environment
from swarm_node.network.alone import Alone
from swarm_node.node.generator_messages import FailedMessage, GeneratedMessage, Order, write_message
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


class NoTrainer(Trainer):
    """The trainer of a process that only generates: no optimiser, no reference model."""

    def update(self, groups: Sequence[ScoredGroup]) -> StepReport:
        raise NotImplementedError("the generator process does not train")


def build(config: LearningConfig) -> tuple[Policy, Environment]:
    """The policy and the environment of a generator process."""
    return configured_policy(config), build_environment(config)


def serve(build: Build) -> None:
    """Runs a generator process from start to end. If it fails, the last line is the error."""
    send = take_stdout()
    order = Order.read(sys.stdin.readline())
    rounds: queue.SimpleQueue[Round] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(rounds,), daemon=True).start()
    try:
        _generate_rounds(order, build, rounds, send)
    except UserError as error:
        send(write_message(FailedMessage(str(error), by_user=True)))
    except Exception as error:  # noqa: BLE001 - the border of the process: the trainer is told
        traceback.print_exc()
        send(write_message(FailedMessage(" ".join(f"{type(error).__name__}: {error}".split()), by_user=False)))


def _generate_rounds(
    order: Order, build: Build, rounds: "queue.SimpleQueue[Round]", send: Callable[[str], Any]
) -> None:
    weights = SharedWeights.attach(order.descriptor, order.layout)
    policy, environment = build(order.config)
    if order.tried:
        policy.tried = Tried(Path(order.tried))
    policy.version = -1  # the first snapshot replaces what was loaded
    refresh = (lambda: weights.take(policy)) if order.config.asynchronous.interrupt else None
    node = build_node(order.config, order.peer_id, environment, Alone(), policy, trainer=NoTrainer(), refresh=refresh)
    while True:
        began = time.monotonic()
        now = rounds.get()
        idle = time.monotonic() - began
        weights.take(policy)
        send(write_message(GeneratedMessage(node.generate(now), idle)))


def _read_orders(rounds: "queue.SimpleQueue[Round]") -> None:
    for line in sys.stdin:
        rounds.put(Round(loads(line)["generate"]))
    os._exit(1)  # the trainer has gone; the scoring process ends when our end of its pipe closes


if __name__ == "__main__":
    serve(build)
