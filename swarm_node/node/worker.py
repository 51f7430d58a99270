"""Both ends of a worker process: `python -m swarm_node.node.worker`. Not for people.

A worker computes on one device for a node that has several (parallel.py). It writes completions to
a part of the prompts, and differentiates a part of the groups. It has no network, no home, no
optimiser and no environment, and takes no step: its weights come from the trainer process through
shared memory (policy/weights.py), and its gradients go back the same way. So a worker that is
started again needs nothing that the one before it knew.
"""

import os
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from signal import SIGKILL
from socket import SO_RCVTIMEO, SO_SNDTIMEO, SOL_SOCKET, socket
from subprocess import TimeoutExpired

from swarm_node.common.awake import has_news
from swarm_node.common.channel import (
    BrokenFrame,
    Channel,
    Failed,
    PipeMessage,
    Talk,
    inherited,
    telling,
)
from swarm_node.common.children import Process, ending, start
from swarm_node.common.loading import quickly
from swarm_node.environments.registry import handed
from swarm_node.node.generator import MAX_FRAME_BYTES, config_of, generator_environment
from swarm_node.rollouts.groups import Completions, Skipped
from swarm_node.settings import LearningConfig, LimitsConfig

with quickly():
    from swarm_node.generation.generator import BatchGenerator, Writes
    from swarm_node.generation.parallel import SamplingRequest
    from swarm_node.node.learner import build_trainer, initial
    from swarm_node.policy.batch import TokenGroup
    from swarm_node.policy.device import limit_gpu_memory
    from swarm_node.policy.loading import configured_policy
    from swarm_node.policy.memory_plan import fitted
    from swarm_node.policy.policy import Policy
    from swarm_node.policy.tried import Tried
    from swarm_node.policy.weights import (
        NOTHING,
        Layout,
        SharedGradients,
        SharedWeights,
        frozen_fingerprint,
        trained_fingerprint,
    )
    from swarm_node.training.helpers import OptimiserStep
    from swarm_node.training.objectives import Totals
    from swarm_node.training.trainer import GrpoTrainer, NothingFits

START_SECONDS = 600.0  # in which a worker has to be ready, with its model loaded
EXIT_SECONDS = 2.0  # from the end of its connection to its status
STUCK_SECONDS = 60  # after which a worker counts as gone that stops in the middle of a message


class Begin(PipeMessage, frozen=True):
    """All that a worker has to know. The first message to it."""

    settings: str  # LearningConfig as JSON, secrets included; its device is the worker's
    turns: int  # of a question, at most
    memory: int  # megabytes that the worker may take of its device; 0 for no limit
    weights: int  # descriptor of the shared weights
    gradients: int  # descriptor of the memory for its gradients
    layout: Layout  # of both
    tried: bytes  # path of the file that says what works on this machine

    @property
    def config(self) -> LearningConfig:
        return config_of(self.settings)


class Write(PipeMessage, frozen=True):
    """Write completions to these contexts, which all have room for one."""

    fresh: bool  # whether the shared weights have changed since the last order
    contexts: list[list[int]]
    request: SamplingRequest
    first: int  # row of the stream that the first completion draws from


class Differentiate(PipeMessage, frozen=True):
    """Compute the gradients of these groups."""

    fresh: bool
    groups: list[TokenGroup]
    step: OptimiserStep


class Compare(PipeMessage, frozen=True):
    """Say which weights you have."""


class Ready(PipeMessage, frozen=True):
    """The model is loaded. What its frozen weights are, as a fingerprint."""

    frozen: str


class Written(PipeMessage, frozen=True):
    """The completions of each context; where there are none, why."""

    completions: list[Completions | None]
    skipped: list[str]

    @property
    def results(self) -> list[Completions | Skipped]:
        pairs = zip(self.completions, self.skipped, strict=True)
        return [made if made is not None else Skipped(why) for made, why in pairs]


class Differentiated(PipeMessage, frozen=True):
    """The gradients are in their memory."""

    loss: float
    totals: Totals
    without: list[str]  # parameters that have no gradient


class Weighed(PipeMessage, frozen=True):
    """Fingerprints of the weights that the worker has."""

    trained: str
    frozen: str


class NoRoom(PipeMessage, frozen=True):
    """Not even the smallest part of the groups fits into the memory of the device."""


ToWorker = Begin | Write | Differentiate | Compare
Reply = Written | Differentiated | Weighed | NoRoom
FromWorker = Ready | Reply | Failed
WORKER: Talk[ToWorker, FromWorker] = Talk(ToWorker, FromWorker, MAX_FRAME_BYTES)
Build = Callable[[LearningConfig], Policy]
Ours = Channel[ToWorker, FromWorker]


class Gone(Exception):
    """A worker does not answer any more. Its text says why."""


class WorkerProcess:
    """The trainer's end of one worker. It gets one order at a time, and answers each with one
    message. Not for several threads.
    """

    def __init__(self, begin: Begin, threads: int, log: Path, command: Sequence[str]) -> None:
        """`threads`: how many it uses for tensor maths. `log` takes what it prints."""
        self._begin, self._threads, self._log, self._command = begin, threads, log, command
        self._process: Process | None = None
        self._connection: socket | None = None
        self._channel: Channel[FromWorker, ToWorker] | None = None
        self.gradients = SharedGradients.attach(begin.gradients, begin.layout)
        self.ready = False  # whether it has loaded its model
        self.busy = False  # whether it has an order that it has not answered

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def device(self) -> str:
        return self._begin.config.model.device

    def start(self) -> None:
        """Starts the process, which then loads its model. Raises OSError."""
        environment = generator_environment(self._threads) | handed(self._begin.config)
        passed = (self._begin.weights, self._begin.gradients)
        self._process, self._connection = start(
            self._command, self._log, environment, passed, append=True
        )
        connection = self._connection
        for way in (SO_SNDTIMEO, SO_RCVTIMEO):
            connection.setsockopt(SOL_SOCKET, way, struct.pack("@ll", STUCK_SECONDS, 0))
        self._channel = Channel(connection, connection, WORKER.up, WORKER.down)
        self.ready = False
        self._send(self._begin)

    def answers(self, seconds: float) -> bool:
        """Whether there is something to receive, or the process has ended; waits for so long. The
        time does not count in which this process slept, and the worker probably, too.
        """
        assert self._connection is not None
        return has_news(self._connection, seconds)

    def order(self, message: Write | Differentiate | Compare) -> None:
        """Raises Gone."""
        self._send(message)

    def take(self, seconds: float) -> Ready | Reply:
        """The answer to the order, which has to begin within so many seconds. Raises Gone."""
        assert self._channel is not None
        if not self.answers(seconds):
            raise Gone(f"it said nothing for {seconds:.0f} seconds")
        try:
            message = self._channel.receive()
        except BrokenFrame as error:
            raise Gone(f"it sent nonsense: {error}") from error
        if message is None:
            raise Gone(self._ended())
        if isinstance(message, Failed):
            raise Gone(message.error)
        self.busy = False
        return message

    def stop(self) -> str:
        """Kill the process if it still runs, and wait. Returns how it ended."""
        process, self._process = self._process, None
        self.ready = self.busy = False
        if process is None:
            return "it has ended"
        if self._connection is not None:
            self._connection.close()
        code = process.poll()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, SIGKILL)
        return f"it {ending(process.wait() if code is None else code)}"

    def _ended(self) -> str:
        """How the process ended, which has closed its connection: its status comes a little
        later. One that does not end by then is killed.
        """
        try:
            if self._process is not None:
                self._process.wait(EXIT_SECONDS)
        except TimeoutExpired:
            self.stop()
            return "it stopped in the middle of a message"
        return self.stop()

    def _send(self, message: ToWorker) -> None:
        assert self._channel is not None
        # Before: where a signal ends the round in the middle of the message, no other may follow it
        self.busy = True
        try:
            self._channel.send(message)
        except OSError as error:
            raise Gone(self._ended()) from error


def build(config: LearningConfig) -> Policy:
    """The policy of a worker."""
    return configured_policy(config)


def serve(build: Build) -> None:
    """Runs a worker process from start to end. If it fails, its last message says why."""
    connection = inherited()
    channel: Ours = Channel(connection, connection, WORKER.down, WORKER.up)
    with telling(channel.send):
        begin = channel.receive()
        if isinstance(begin, Begin):
            orders: SimpleQueue[ToWorker] = SimpleQueue()
            threading.Thread(target=_read_orders, args=(channel, orders), daemon=True).start()
            working = Working.of(begin, build)
            channel.send(Ready(frozen_fingerprint(working.policy)))
            while True:
                channel.send(working.answer(orders.get()))


@dataclass
class Working:
    """What a worker computes with."""

    policy: Policy
    generator: BatchGenerator
    trainer: GrpoTrainer
    weights: SharedWeights
    gradients: SharedGradients
    turns: list[Writes] = field(default_factory=list)  # the episodes that are being written

    @classmethod
    def of(cls, begin: Begin, build: Build) -> "Working":
        """All that the first message asks for, with the model loaded."""
        config = begin.config
        weights = SharedWeights.attach(begin.weights, begin.layout)
        gradients = SharedGradients.attach(begin.gradients, begin.layout)
        limit_gpu_memory(begin.memory, config.model.device)
        policy = build(config)
        if begin.tried:
            policy.tried = Tried(Path(os.fsdecode(begin.tried)))
        config, _ = fitted(config, policy, LimitsConfig(memory=begin.memory), begin.turns)
        trainer = build_trainer(config, policy, initial(config, policy.tried))
        # The first order replaces the weights that were loaded
        policy.version = NOTHING
        return cls(policy, BatchGenerator(policy, config.generation), trainer, weights, gradients)

    def answer(self, order: ToWorker) -> Reply:
        """Does what is ordered."""
        match order:
            case Write():
                self._take(order.fresh)
                return self._written(order)
            case Differentiate():
                self.turns.clear()  # it holds a decoder, and with it a copy of the weights
                self._take(order.fresh)
                return self._differentiated(order)
            case Compare():
                return Weighed(trained_fingerprint(self.policy), frozen_fingerprint(self.policy))
            case _:
                raise ValueError(f"{type(order).__name__} is no order")

    def _take(self, fresh: bool) -> None:
        if fresh:
            self.turns.clear()  # their decoder has a copy of the weights before
            self.weights.take(self.policy, again=True)

    def _written(self, order: Write) -> Written:
        request = order.request
        if request.begins or not self.turns:  # it had no part in the first turn, or is new
            self.turns = [self.generator.open(goes_on=request.goes_on)]
        (write,) = self.turns
        made = write(order.contexts, request.group_size, request.stream, order.first)
        if not request.goes_on:
            self.turns.clear()
        completions = [one if isinstance(one, Completions) else None for one in made]
        reasons = [one.reason if isinstance(one, Skipped) else "" for one in made]
        return Written(completions, reasons)

    def _differentiated(self, order: Differentiate) -> Reply:
        try:
            loss, totals = self.trainer.differentiate(order.groups, order.step)
        except NothingFits:
            return NoRoom()
        without = self.gradients.put(self.policy)
        self.policy.model.zero_grad()
        return Differentiated(loss, totals, without)


def _read_orders(channel: Ours, orders: "SimpleQueue[ToWorker]") -> None:
    try:
        while (order := channel.receive()) is not None:
            orders.put(order)
    finally:
        os._exit(1)  # the trainer has gone: nobody needs what is being computed


if __name__ == "__main__":
    serve(build)
