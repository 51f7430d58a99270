"""An asynchronous node: a `Node` whose generation runs in another process while this one trains.

Rounds and reports are the same. Generated rounds wait here, the oldest first, and each is trained
on once, in order. `Capacity` decides how far generation may run ahead. With `max_staleness` 0 the
two processes take turns and do exactly what `Node` does.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty
from time import monotonic
from typing import TypeVar

import torch

from protocol.messages import Round
from swarm_node.common.children import usable_cores
from swarm_node.common.errors import TemporaryError, UserError
from swarm_node.node.generator import (
    FromGenerator,
    GeneratedMessage,
    GeneratorProcess,
    GeneratorSetup,
    settings_for,
)
from swarm_node.node.round import Node
from swarm_node.node.waiting import read_waiting, write_waiting
from swarm_node.policy.policy import Policy
from swarm_node.policy.weights import SharedWeights
from swarm_node.rollouts.groups import Generated, Overlap, RoundReport
from swarm_node.rollouts.interfaces import Runner
from swarm_node.settings import LearningConfig

COMMAND = (sys.executable, "-P", "-m", "swarm_node.node.generator")
# Rounds under way at once, whatever staleness allows: waiting rounds are held in memory
MAX_AHEAD = 64
MAX_DEATHS = 3  # of the generator without a round generated in between


C = TypeVar("C", bound=LearningConfig)
Plan = Callable[[Round, int], Sequence[str]]  # of a round with so many questions: their tasks


class GeneratorFailed(TemporaryError):
    """The generator process cannot be kept alive."""


@dataclass(slots=True)
class Capacity:
    """How far generation may run ahead of training (AReaL, arXiv 2505.24298, section 5.1). Pure
    counting.

    A round is one batch. It is started only if, trained on in order, it will be at most
    `max_staleness` updates old: number N, from 1, needs N - 1 <= version + max_staleness. With 0
    generation and training alternate.
    """

    max_staleness: int  # eta: updates
    max_concurrent: int  # rounds under way at once
    version: int = 0  # updates done, each of which consumes one round
    accepted: int = 0  # finished so far, trained on or not
    running: int = 0  # started and not finished

    def free(self) -> int:
        """How many rounds may be started now."""
        by_staleness = self.max_staleness + self.version + 1 - (self.accepted + self.running)
        return max(0, min(self.max_concurrent - self.running, by_staleness))

    def start(self) -> None:
        if not self.free():
            raise ValueError("a round started without room for one")
        self.running += 1

    def finish(self) -> None:
        """One of the running rounds is generated, and waits to be trained on."""
        self.lose(1)  # it runs no more
        self.accepted += 1

    def lose(self, count: int) -> None:
        """`count` of the running rounds were lost, since their process died. Others may start in
        their place.
        """
        if count > self.running:
            raise ValueError(f"{count} rounds ended, {self.running} were running")
        self.running -= count

    def update(self) -> None:
        """One round was trained on."""
        if self.accepted <= self.version:
            raise ValueError(f"update {self.version} without a round of its own")
        self.version += 1


class AsynchronousNode:
    """Implements interfaces.Runner with a node and its generator process. Not for several
    threads.
    """

    def __init__(
        self,
        node: Node,
        policy: Policy,
        weights: SharedWeights,
        process: GeneratorProcess,
        max_staleness: int,
        warn: Callable[[str], None],
        max_rounds: int = 0,
        plan: Plan | None = None,
    ) -> None:
        """
        Args:
            weights: those that `process` reads.
            warn: takes one line for each fault that was repaired.
            max_rounds: rounds from this one on are not generated; 0 for no end.
            plan: chooses the tasks of a round; None: the environment's, in turn.
        """
        self.node, self._plan = node, plan
        self._policy, self._weights, self._process, self._warn = policy, weights, process, warn
        self._max_staleness, self._max_rounds = max_staleness, max_rounds
        # Not yet trained on, with the idle time before each
        self._generated: deque[tuple[Generated, float]] = deque()
        self._capacity = self._counts(Round(0))
        self._next = Round(0)  # the next round to order
        self._deaths = 0
        self._since = monotonic()
        # Of the present round, in seconds: the generator idle, this process waiting
        self._idle = self._waited = 0.0

    def start(self, done: Round, waiting: Sequence[str]) -> None:
        """Begin after `done` rounds. `waiting`: the next rounds, already generated, as a checkpoint
        keeps them.
        """
        self._generated = deque((read_waiting(text), 0.0) for text in waiting)
        self._capacity = self._counts(done)
        self._capacity.accepted += len(waiting)
        self._next = Round(done + len(waiting))
        self._weights.publish(self._policy)
        self._process.start()
        self._order()
        self._since = monotonic()

    def run_round(self, now: Round) -> RoundReport:
        generated = self._oldest(now)
        waiting = len(self._generated)
        report = self.node.consume(generated)
        self._weights.publish(self._policy)
        self._capacity.update()
        self._order()
        wall, self._since = monotonic() - self._since, monotonic()
        busy = sum(generated.seconds[phase] for phase in ("generate", "score"))
        generating, training = (
            busy / max(busy + self._idle, 1e-9),
            1 - min(1.0, self._waited / max(wall, 1e-9)),
        )
        return replace(report, overlap=Overlap(wall, generating, training, waiting))

    def waiting(self) -> list[str]:
        self._drain()
        return [write_waiting(generated) for generated, _ in self._generated]

    def close(self) -> None:
        self._process.stop()
        self._weights.close()

    def _counts(self, done: Round) -> Capacity:
        return Capacity(self._max_staleness, MAX_AHEAD, version=done, accepted=done)

    def _order(self) -> None:
        for _ in range(self._capacity.free()):
            if self._max_rounds and self._next >= self._max_rounds:
                return
            self._capacity.start()
            others = self.node.inbox.questions()
            tasks = self._plan(self._next, self.node.own(len(others))) if self._plan else ()
            self._process.generate(self._next, others, tasks)
            self._next = Round(self._next + 1)

    def _oldest(self, now: Round) -> Generated:
        """The round to train on: the oldest that waits. A round is published when it comes from the
        generator.
        """
        began = monotonic()
        self._drain()
        while not self._generated:
            self._take(self._process.take(block=True))
        generated, self._idle = self._generated.popleft()
        if generated.round != now:
            raise RuntimeError(f"round {generated.round} came where round {now} was due")
        self._waited = monotonic() - began
        return generated

    def _drain(self) -> None:
        while True:
            try:
                self._take(self._process.take(block=False))
            except Empty:
                return

    def _take(self, message: FromGenerator | None) -> None:
        if isinstance(message, GeneratedMessage):
            self._deaths = 0
            self._capacity.finish()
            self._generated.append((self.node.publish(message.generated), message.idle))
        elif message is None:
            self._restart(self._process.stop())
        else:
            self._process.stop()
            if message.by_user:
                raise (TemporaryError if message.passing else UserError)(message.error)
            self._restart(message.error)

    def _restart(self, reason: str) -> None:
        """Starts another process, which generates the rounds that the dead one did not deliver."""
        lost = self._capacity.running
        self._capacity.lose(lost)
        self._next = Round(self._next - lost)
        self._deaths += 1
        if self._deaths >= MAX_DEATHS:
            raise GeneratorFailed(
                f"the generator process failed {self._deaths} times at round {self._next} "
                f"({reason}): see generator.log in the home folder, or run with "
                "--asynchronous.no-enabled, if memory is short for two models"
            )
        self._warn(
            f"the generator process ended ({reason}); another one continues with round "
            f"{self._next} "
            "(generator.log in the home says more)"
        )
        self._process.start()
        self._order()


def trainer_side(config: C) -> C:
    """The configuration of the trainer process: its device, and its share of the cores.

    Of two cores it takes both: training costs more than generation, so the generator idles for a
    part of every round.
    """
    if not config.asynchronous.enabled:
        return config
    cores = usable_cores()
    return _side(config, config.model.device, min(cores, max(2, cores - cores // 2)))


def generator_side(config: C) -> C:
    """The configuration of the generator process: its device, and its share of the cores."""
    second = config.model.device in ("auto", "cuda") and torch.cuda.device_count() > 1
    return _side(config, "cuda:1" if second else config.model.device, max(1, usable_cores() // 2))


def _side(config: C, device: str, threads: int) -> C:
    model = config.model.model_copy(update={"device": device})
    return config.model_copy(update={"model": model, "threads": config.threads or threads})


@contextmanager
def driving(
    config: LearningConfig,
    node: Node,
    policy: Policy,
    log: Path,
    warn: Callable[[str], None],
    done: int = 0,
    waiting: Sequence[str] = (),
    max_rounds: int = 0,
    *,
    plan: Plan | None = None,
    command: Sequence[str] = COMMAND,
) -> Iterator[Runner]:
    """What runs the rounds: the node itself, or the node with a generator process, which ends with
    the context.

    Args:
        config: as the user gave it, for both sides.
        log: takes the stderr of the generator process.
        done: rounds done before.
        waiting: rounds generated since, from a checkpoint.
        max_rounds: 0 for no end.
        plan: see `AsynchronousNode`.
    """
    if not config.asynchronous.enabled:
        yield node
        return
    side = generator_side(config)
    weights = SharedWeights.create(policy)
    tried = os.fsencode(policy.tried.path or "")
    order = GeneratorSetup(
        settings_for(side), node.peer_id, weights.descriptor, list(weights.layout), tried
    )
    process = GeneratorProcess(order, side.threads, log, command)
    driver = AsynchronousNode(
        node, policy, weights, process, config.asynchronous.max_staleness, warn, max_rounds, plan
    )
    try:
        driver.start(Round(done), waiting)
        yield driver
    finally:
        driver.close()
