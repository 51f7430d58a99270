"""Both ends of the generator process of an asynchronous node: `python -m
swarm_node.node.generator`. Not for people.

The process generates and scores rounds in the order that it receives, each with the newest
published weights. Training and the network belong to the trainer process, which starts it, orders
rounds, and starts another if it dies. Weights go through shared memory (policy/weights.py), so
messages are short: texts, token ids, log-probs, rewards.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from socket import socket

from protocol.messages import PeerId, Question, Round
from swarm_node.common.channel import (
    BrokenFrame,
    Channel,
    Failed,
    PipeMessage,
    Talk,
    inherited,
    orders_from,
    telling,
)
from swarm_node.common.children import Process, ending, start, without_secrets
from swarm_node.common.loading import quickly
from swarm_node.environments.registry import build_environment, handed
from swarm_node.environments.scored import Mixture
from swarm_node.network.in_memory import Alone
from swarm_node.rollouts.groups import Generated, Group, StepReport
from swarm_node.rollouts.interfaces import Environment, Trainer
from swarm_node.settings import LearningConfig, part_of
from swarm_node.settings.secret import revealed

with quickly():
    from swarm_node.node.learner import build_node
    from swarm_node.policy.loading import configured_policy
    from swarm_node.policy.policy import Policy
    from swarm_node.policy.tried import Tried
    from swarm_node.policy.weights import SharedWeights

# A token takes about 12: far more than a round of any model has
MAX_FRAME_BYTES = 1024 * 1024 * 1024


class GeneratorSetup(PipeMessage, frozen=True):
    """All that a generator process needs to generate rounds. The first message to it."""

    settings: str  # LearningConfig as JSON, secrets included
    peer_id: PeerId
    descriptor: int  # of the shared weights
    layout: list[tuple[str, tuple[int, ...], str]]  # of the shared weights
    tried: bytes = b""  # path of the file that says what works on this machine

    @property
    def config(self) -> LearningConfig:
        return config_of(self.settings)


class Generate(PipeMessage, frozen=True):
    """Generate this round, after those ordered before."""

    round: Round
    others: tuple[Question, ...]  # questions of other nodes, to answer beside its own
    # Of its own questions, where the trainer chooses them; empty: those of the environment, in turn
    tasks: tuple[str, ...] = ()


class GeneratedMessage(PipeMessage, frozen=True):
    """A round is generated."""

    generated: Generated
    idle: float  # seconds that the generator waited for the order


ToGenerator = GeneratorSetup | Generate
FromGenerator = GeneratedMessage | Failed
GENERATOR: Talk[ToGenerator, FromGenerator] = Talk(ToGenerator, FromGenerator, MAX_FRAME_BYTES)
Build = Callable[[LearningConfig], tuple[Policy, Environment]]
Ours = Channel[ToGenerator, FromGenerator]


def settings_for(config: LearningConfig) -> str:
    """The settings of an order, as JSON. Options of the configuration that a generator does not
    need are left out.
    """
    needed = LearningConfig.model_construct(**part_of(config, LearningConfig))
    return json.dumps(revealed(needed))


def config_of(settings: str) -> LearningConfig:
    """The configuration that `settings_for` has written."""
    return LearningConfig.model_validate(json.loads(settings))


class GeneratorProcess:
    """One process at a time. A thread reads its messages, so the process never waits for a busy
    trainer.
    """

    def __init__(
        self, order: GeneratorSetup, threads: int, log: Path, command: Sequence[str]
    ) -> None:
        """`log` takes what the process prints; `threads`: how many it uses for tensor maths."""
        self._order, self._threads, self._log, self._command = order, threads, log, command
        self._process: Process | None = None
        self._channel: Channel[FromGenerator, ToGenerator] | None = None
        # None: the process has ended
        self._messages: SimpleQueue[FromGenerator | None] = SimpleQueue()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        self._messages = SimpleQueue()
        environment = generator_environment(self._threads) | handed(self._order.config)
        passed = (self._order.descriptor,)
        self._process, connection = start(
            self._command, self._log, environment, passed, append=True
        )
        self._channel = Channel(connection, connection, GENERATOR.up, GENERATOR.down)
        threading.Thread(
            target=_read, args=(connection, self._channel, self._messages), daemon=True
        ).start()
        self._send(self._order)

    def generate(self, now: Round, others: Sequence[Question], tasks: Sequence[str] = ()) -> None:
        """Order this round, to be generated after the rounds ordered before. `tasks`: of its own
        questions, if they are chosen.
        """
        self._send(Generate(now, tuple(others), tuple(tasks)))

    def take(self, block: bool) -> FromGenerator | None:
        """The next message; None when the process has ended. Without `block`, raises `queue.Empty`
        if none has come.
        """
        return self._messages.get(block)

    def stop(self) -> str:
        """Kill the process if it still runs, and wait. Returns how it ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        code = process.poll()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        return f"it {ending(process.wait() if code is None else code)}"

    def _send(self, message: ToGenerator) -> None:
        assert self._channel is not None
        with suppress(OSError):  # it died: the reading thread reports that
            self._channel.send(message)


def _read(
    connection: socket,
    channel: Channel[FromGenerator, ToGenerator],
    messages: "SimpleQueue[FromGenerator | None]",
) -> None:
    with connection:
        try:
            while (message := channel.receive()) is not None:
                messages.put(message)
        except BrokenFrame as error:
            messages.put(Failed(f"it sent nonsense: {error}", by_user=False))
    messages.put(None)


def generator_environment(threads: int) -> dict[str, str]:
    """Variables for a process that shares the cores with another one. Its idle threads sleep
    instead of spinning.
    """
    count = str(threads)
    threading = {
        "OMP_WAIT_POLICY": "passive",
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "TOKENIZERS_PARALLELISM": "false",
    }
    return without_secrets(threading)


class NoTrainer(Trainer):
    """The trainer of a process that only generates: no optimiser, no reference model."""

    rows = "none"  # it trains on none
    stepping, steps = False, 0

    def update(self, groups: Sequence[Group]) -> StepReport:
        raise NotImplementedError("the generator process does not train")

    def settle(self) -> None:
        return None  # no round of its own changes weights

    def is_finite(self) -> bool:
        return True

    def save(self, file: Path) -> None:
        raise NotImplementedError("the generator process writes no checkpoints")

    def restore(self, file: Path | None, steps: int, version: int) -> None:
        raise NotImplementedError("the generator process reads no checkpoints")


def build(config: LearningConfig) -> tuple[Policy, Environment]:
    """The policy and the environment of a generator process."""
    return configured_policy(config), build_environment(config)


def serve(build: Build) -> None:
    """Runs a generator process from start to end. If it fails, its last message says why."""
    connection = inherited()
    channel: Ours = Channel(connection, connection, GENERATOR.down, GENERATOR.up)
    with telling(channel.send):
        order = channel.receive()
        if isinstance(order, GeneratorSetup):
            _generate_rounds(order, build, orders_from(channel), channel)


def _generate_rounds(
    order: GeneratorSetup, build: Build, orders: "SimpleQueue[ToGenerator]", channel: Ours
) -> None:
    weights = SharedWeights.attach(order.descriptor, order.layout)
    policy, environment = build(order.config)
    if order.tried:
        policy.tried = Tried(Path(os.fsdecode(order.tried)))
    policy.version = -1  # the first snapshot replaces what was loaded
    node = build_node(
        order.config, order.peer_id, environment, Alone(), policy, trainer=NoTrainer()
    )
    while True:
        began = time.monotonic()
        asked = orders.get()
        idle = time.monotonic() - began
        if not isinstance(asked, Generate):
            raise ValueError(f"{type(asked).__name__} is no order")
        weights.take(policy)
        if asked.tasks and isinstance(environment, Mixture):
            environment.chooser = partial(_ordered, asked.tasks)
        channel.send(GeneratedMessage(node.generate(asked.round, asked.others), idle))


def _ordered(tasks: Sequence[str], now: Round, count: int) -> Sequence[str]:
    """The tasks of a round that the trainer process has chosen."""
    return tasks[:count]


if __name__ == "__main__":
    serve(build)
