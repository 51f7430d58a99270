"""A node on several devices of one machine: data-parallel rounds (`model.devices`).

The process of the node, here *the trainer*, works on the first device. Each further device has a
worker process (worker.py) with the same model. In a round

    trainer                                   each worker
    ------------------------------------      ----------------------------------
    publishes its weights               --->  copies them
    cuts the prompts into parts         --->  writes completions to its part
    collects them                       <---
    scores, shares and selects                (waits)
    cuts the groups of a step into parts --->  computes the gradients of its part
    adds all gradients to its own       <---
    clips, and takes the step of AdamW        (waits)

so that the trainer alone has network, home, defence, validation and the optimiser, and all other
code of a node is the same for one device and for many. Weights and gradients cross in shared
memory, a copy each way for every step; messages carry the rest.

Why not an all-reduce of torch.distributed, after which each process takes the same step? When a
member of its group dies, gloo fails in all others, NCCL waits, and either needs a new group. Here
the trainer does what a dead worker left undone, and the round loses nothing but time. Cards of
consumers have no direct way to each other, so that NCCL, too, would go through the memory of the
host. And a worker that takes no step needs no optimiser: a third of the memory of full training
stays free on its card, it cannot drift, and a checkpoint knows nothing of how many there are.

A worker that dies is started again, and takes part again when it has loaded its model. After a
checkpoint the fingerprints of all weights are compared, and a worker whose weights differ gets them
again.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import torch

from swarm_node.common import memory
from swarm_node.common.awake import looking_awake
from swarm_node.common.children import usable_cores
from swarm_node.common.errors import UserError
from swarm_node.generation.generator import BatchGenerator, Writes
from swarm_node.generation.parallel import ParallelGenerator, SamplingRequest
from swarm_node.node.generator import settings_for
from swarm_node.node.learner import Learner
from swarm_node.node.worker import (
    START_SECONDS,
    Begin,
    Compare,
    Differentiate,
    Differentiated,
    Gone,
    Reply,
    Weighed,
    WorkerProcess,
    Write,
    Written,
)
from swarm_node.policy.batch import TokenGroup
from swarm_node.policy.policy import Policy
from swarm_node.policy.weights import SharedGradients, SharedWeights, frozen_fingerprint
from swarm_node.rollouts.groups import Completions, Skipped
from swarm_node.settings import NodeConfig
from swarm_node.training.helpers import OptimiserStep
from swarm_node.training.objectives import Totals
from swarm_node.training.trainer import GrpoTrainer

COMMAND = (sys.executable, "-P", "-m", "swarm_node.node.worker")
MAX_DEATHS = 3  # of a worker without an order done in between
# A worker counts as hung when it takes so many seconds, and so many times as long as the trainer
# took for its own part
PATIENCE, SLOWER = 120.0, 10.0
LOG = "workers.log"  # in the home

Stamp = tuple[int, int]  # of weights: their version, and optimiser steps so far


@dataclass
class Member:
    """A worker as the trainer sees it."""

    process: WorkerProcess
    has: Stamp | None = None  # the weights that it has
    deaths: int = 0  # since it last did what it was told
    dropped: bool = False  # whether it died too often to be started again
    awaited: bool = True  # whether the trainer waits until it has loaded its model
    begun: float = 0.0  # when it was started, in seconds


class Workers:
    """The workers of a node. Implements Helpers for its trainer and Writers for its generator."""

    def __init__(
        self,
        policy: Policy,
        steps: Callable[[], int],
        weights: SharedWeights,
        processes: Sequence[WorkerProcess],
        warn: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        """
        Args:
            policy: of the trainer.
            steps: optimiser steps that the trainer has taken so far.
            weights: those that the processes read.
            warn: takes one line for each fault that was repaired.
            clock: seconds in which this process was awake.
        """
        self._policy, self._steps, self._weights = policy, steps, weights
        self._warn, self._clock = warn, clock
        self._members = [Member(process) for process in processes]
        self._published: Stamp | None = None
        self._frozen = frozen_fingerprint(policy)
        # Of the present step: who differentiates what, when that began, and what came back
        self._parts: list[tuple[Member, list[TokenGroup]]] = []
        self._began = 0.0
        self._gradients: list[tuple[SharedGradients, Differentiated]] = []

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that run."""
        return [pid for member in self._members if (pid := member.process.pid) is not None]

    @property
    def complete(self) -> bool:
        """Whether all workers have loaded their models, and took part in what was last done."""
        return all(member.process.ready for member in self._members)

    def start(self) -> None:
        """Starts the processes that do not run. They load their models while this one goes on."""
        for member in self._members:
            if member.process.pid is None and not member.dropped:
                self._start(member)

    def rest(self) -> None:
        """See generation.parallel.Writers: the next order starts them again."""
        for member in self._members:
            member.process.stop()
            member.has, member.awaited = None, True

    def close(self) -> None:
        """Ends the processes, and gives the shared memory back."""
        for member in self._members:
            member.process.stop()
            member.process.gradients.close()
        self._weights.close()

    def write(
        self, contexts: list[list[int]], request: SamplingRequest, own: Writes
    ) -> list[Completions | Skipped]:
        """See generation.parallel.Writers."""
        members = self._present()
        mine, *others = parts_of(len(contexts), 1 + len(members))
        group_size, began = request.group_size, self._clock()

        def here(part: range) -> list[Completions | Skipped]:
            chosen = contexts[part.start : part.stop]
            if not chosen:
                return []
            return own(chosen, group_size, request.stream, part.start * group_size)

        asked: list[tuple[Member, range, bool]] = []
        for member, part in zip(members, others, strict=True):
            if part:
                chosen = contexts[part.start : part.stop]
                order = Write(self._stale(member), chosen, request, part.start * group_size)
                asked.append((member, part, self._order(member, order)))
        results = here(mine)
        for member, part, ordered in asked:
            reply = self._answer(member, began) if ordered else None
            complete = isinstance(reply, Written) and len(reply.completions) == len(part)
            results += reply.results if isinstance(reply, Written) and complete else here(part)
        return results

    def hand_out(self, groups: list[TokenGroup], step: OptimiserStep) -> list[TokenGroup]:
        """See Helpers."""
        members = self._present()
        own, *others = balanced(groups, 1 + len(members))
        self._began, self._parts, self._gradients = self._clock(), [], []
        for member, part in zip(members, others, strict=True):
            if not part:
                continue
            if self._order(member, Differentiate(self._stale(member), part, step)):
                self._parts.append((member, part))
            else:
                own = own + part
        return own

    def gather(self) -> list[TokenGroup]:
        """See Helpers."""
        missing: list[TokenGroup] = []
        for member, part in self._parts:
            reply = self._answer(member, self._began)
            if isinstance(reply, Differentiated):
                self._gradients.append((member.process.gradients, reply))
            else:
                missing += part
        self._parts = []
        return missing

    def add(self, policy: Policy, totals: Totals) -> float:
        """See Helpers."""
        loss = 0.0
        for gradients, reply in self._gradients:
            gradients.add_to(policy, reply.without)
            totals.add(reply.totals)
            loss += reply.loss
        self._gradients = []
        return loss

    def compare(self) -> None:
        """Compares the weights of each worker with those that it was given. One that has others
        gets them again, and is started again where its frozen weights differ, too. Workers that
        are busy or that load their model are left out.
        """
        given = None
        for member in self._members:
            process = member.process
            if process.busy or member.has is None or member.has != self._published:
                continue
            given = given or self._weights.fingerprint()
            began = self._clock()
            found = self._answer(member, began) if self._order(member, Compare()) else None
            if not isinstance(found, Weighed):
                continue
            if found.frozen != self._frozen:
                self._lose(member, "the weights of its base model have changed")
            elif found.trained != given:
                member.has = None
                self._warn(
                    f"the weights of the worker on {process.device} differed from those that it "
                    "was given: it gets them again"
                )

    def _present(self) -> list[Member]:
        """The workers that can take an order now, with the present weights published for them."""
        self.start()
        members = [member for member in self._members if self._is_there(member)]
        stamp = self._policy.version, self._steps()
        if members and stamp != self._published:
            self._published = None  # a signal may end the round in the middle of the copy
            self._weights.publish(self._policy)
            self._published = stamp
        return members

    def _is_there(self, member: Member) -> bool:
        """Whether this worker can take an order now. One that was started again while the node
        trained is not waited for.
        """
        process = member.process
        if process.pid is None:
            return False
        try:
            if not process.ready:
                left = max(0.0, START_SECONDS - (self._clock() - member.begun))
                if not process.answers(left if member.awaited else 0.0):
                    if left and not member.awaited:
                        return False
                    raise Gone(f"it did not load its model within {START_SECONDS:.0f} seconds")
                ready = process.take(0.0)
                process.ready = True
                if getattr(ready, "frozen", "") != self._frozen:
                    member.deaths = MAX_DEATHS  # another start would load the same
                    raise Gone("it has loaded another base model")
            elif process.busy:  # what it was told belongs to a step that was given up
                process.take(PATIENCE)
        except Gone as gone:
            self._lose(member, str(gone))
            return False
        return True

    def _stale(self, member: Member) -> bool:
        """Whether this worker has to copy the published weights; from now on it has them."""
        stale, member.has = member.has != self._published, self._published
        return stale

    def _order(self, member: Member, order: Write | Differentiate | Compare) -> bool:
        """Whether the order could be given."""
        try:
            member.process.order(order)
        except Gone as gone:
            self._lose(member, str(gone))
            return False
        return True

    def _answer(self, member: Member, began: float) -> Reply | None:
        """What the worker answers to its order, which was given then; None where it is gone."""
        patience = max(PATIENCE, SLOWER * (self._clock() - began))
        try:
            reply = member.process.take(patience)
        except Gone as gone:
            self._lose(member, str(gone))
            return None
        member.deaths = 0
        return None if not isinstance(reply, Written | Differentiated | Weighed) else reply

    def _lose(self, member: Member, why: str) -> None:
        """A worker is gone: another one takes its place, unless they die again and again."""
        member.process.stop()
        member.has, member.awaited = None, False
        member.deaths += 1
        begun = f"the worker on {member.process.device} has ended ({why})"
        if member.deaths < MAX_DEATHS:
            self._warn(
                f"{begun}: its part is done here, and another worker starts ({LOG} in the home "
                "says more)"
            )
            self._start(member)
            return
        member.dropped = True
        self._warn(
            f"{begun}: the node continues without that device ({LOG} in the home says more), until "
            "you start it again"
        )

    def _start(self, member: Member) -> None:
        member.begun = self._clock()
        try:
            member.process.start()
        except (OSError, Gone) as error:
            member.process.stop()
            member.dropped = True
            self._warn(
                f"no worker can be started on {member.process.device} ({error}): the node "
                "continues without that device, until you start it again"
            )


def parts_of(count: int, parts: int) -> list[range]:
    """`count` places in a row, cut into so many parts. If the number of places cannot be divided
    evenly, the first parts have one place more.
    """
    ends = [-(-count * part // parts) for part in range(parts + 1)]
    return [range(begin, end) for begin, end in pairwise(ends)]


def balanced(groups: Sequence[TokenGroup], parts: int) -> list[list[TokenGroup]]:
    """The groups in so many parts with about as many tokens each: the longest first, and each to
    the part that has the fewest tokens yet.
    """
    made: list[list[TokenGroup]] = [[] for _ in range(parts)]
    tokens = [0] * parts
    for group in sorted(groups, key=lambda group: -group.length):
        least = tokens.index(min(tokens))
        made[least].append(group)
        tokens[least] += group.length
    return made


def devices_of(config: NodeConfig) -> tuple[str, ...]:
    """The devices that this node computes on, that of the trainer first. UserError where the
    option asks for devices that are not here, or that cannot work together.
    """
    asked, first = config.model.devices, config.model.device
    cards = torch.cuda.device_count() if first in ("auto", "cuda") else 0
    hindrances = {
        "--asynchronous.enabled": config.asynchronous.enabled,
        "--vllm.url": bool(config.vllm.url),
    }
    hindering = next((option for option, given in hindrances.items() if given), "")
    if asked == "auto":
        alike = _of_one_kind(cards) if not hindering else []
        return tuple(alike) if len(alike) > 1 else (first,)
    named = _counted(int(asked), cards, first) if asked.isdigit() else tuple(asked.split(","))
    if len(named) == 1:
        return named
    if hindering:
        raise UserError(f"model.devices {asked} does not work with {hindering}: leave one out")
    if len({name.split(":")[0] for name in named}) > 1:
        raise UserError(f"model.devices {asked}: name devices of one kind, such as cuda:0,cuda:1")
    there = torch.cuda.device_count()
    for name in named:
        if name.startswith("cuda:") and int(name.removeprefix("cuda:")) >= there:
            raise UserError(
                f"model.devices {asked}: torch finds {there} GPUs here, and {name} is none of "
                "them; leave it out"
            )
    return named


def _of_one_kind(cards: int) -> list[str]:
    """The cards of the kind of the first one."""
    kinds = [torch.cuda.get_device_properties(index) for index in range(cards)]
    return [
        f"cuda:{index}"
        for index, kind in enumerate(kinds)
        if (kind.name, kind.total_memory) == (kinds[0].name, kinds[0].total_memory)
    ]


def _counted(count: int, cards: int, first: str) -> tuple[str, ...]:
    """So many devices: the first cards, or the CPU so many times."""
    if count == 1:
        return (first,)
    if cards:
        if count > cards:
            raise UserError(
                f"model.devices {count}: torch finds {cards} GPUs here; give at most {cards}"
            )
        return tuple(f"cuda:{index}" for index in range(count))
    if first not in ("auto", "cpu"):
        raise UserError(f"model.devices {count} does not fit model.device {first}: leave one out")
    return ("cpu",) * count


def config_of_process(config: NodeConfig, devices: tuple[str, ...], number: int) -> NodeConfig:
    """The configuration of one of the processes: its device, and its share of the cores and of the
    machine's memory. On one device it has all of them.
    """
    if devices == (config.model.device,):
        return config
    model, limits = config.model.model_copy(update={"device": devices[number]}), config.limits
    if len(devices) == 1:
        return config.model_copy(update={"model": model})
    threads = config.threads or max(1, usable_cores() // len(devices))
    if devices[0] == "cpu":
        share = int(memory.available() / len(devices) / 1e6)
        most = min(share, limits.memory) if limits.memory else share
        limits = limits.model_copy(update={"memory": max(1, most)})
    return config.model_copy(update={"model": model, "threads": threads, "limits": limits})


@contextmanager
def with_workers(
    devices: Sequence[str],
    learner: Learner,
    log: Path,
    warn: Callable[[str], None],
    *,
    command: Sequence[str] = COMMAND,
) -> Iterator[Learner]:
    """The learner with a worker for each device but the first, which end with the context. With one
    device it is the learner as it is.

    Args:
        log: takes what the workers print.
        warn: takes one line for each fault that was repaired.
    """
    node, policy = learner.node, learner.policy
    if len(devices) == 1:
        yield learner
        return
    generator, trainer = node.generator, node.trainer
    assert isinstance(generator, BatchGenerator) and isinstance(trainer, GrpoTrainer)
    weights = SharedWeights.create(policy)
    turns = node.environment.catalogue.most_turns
    processes = [
        _process(learner.config, device, policy, weights, turns, log, command)
        for device in devices[1:]
    ]
    workers = Workers(policy, lambda: trainer.steps, weights, processes, warn, looking_awake())
    trainer.helpers = workers
    try:
        workers.start()
        parallel = replace(node, generator=ParallelGenerator(generator, workers))
        yield replace(learner, node=parallel, devices=tuple(devices), compare=workers.compare)
    finally:
        trainer.helpers = None
        workers.close()


def _process(
    config: NodeConfig,
    device: str,
    policy: Policy,
    weights: SharedWeights,
    turns: int,
    log: Path,
    command: Sequence[str],
) -> WorkerProcess:
    """A worker that is not started yet."""
    revision = policy.commit or config.model.revision
    model = config.model.model_copy(update={"device": device, "revision": revision})
    gradients = SharedGradients.create(policy)
    begin = Begin(
        settings_for(config.model_copy(update={"model": model})),
        turns,
        config.limits.memory,
        weights.descriptor,
        gradients.descriptor,
        list(weights.layout),
        os.fsencode(policy.tried.path or ""),
    )
    return WorkerProcess(begin, config.threads, log, command)
