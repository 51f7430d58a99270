"""From one configuration to the two processes of an asynchronous node."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from protocol.messages import Round
from swarm_node.node.asynchronous import AsynchronousNode
from swarm_node.node.generator_process import GeneratorProcess, Order, settings_for
from swarm_node.node.round import Node
from swarm_node.policy.policy import Policy
from swarm_node.policy.weights import SharedWeights
from swarm_node.rollouts.interfaces import Runner
from swarm_node.settings import LearningConfig
from swarm_node.telemetry.manifest import usable_cores

COMMAND = (sys.executable, "-P", "-m", "swarm_node.node.generator")

C = TypeVar("C", bound=LearningConfig)


def trainer_side(config: C) -> C:
    """What the trainer process runs with: its device, and its share of the cores.

    Of two cores it takes both: training costs more than generation, so the generator idles for a part of every round.
    """
    if not config.asynchronous.enabled:
        return config
    cores = usable_cores()
    return _side(config, config.model.device, min(cores, max(2, cores - cores // 2)))


def generator_side(config: C) -> C:
    """What the generator process runs with."""
    second = config.model.device in ("auto", "cuda") and torch.cuda.device_count() > 1
    return _side(config, "cuda:1" if second else config.model.device, max(1, usable_cores() // 2))


def advice(config: LearningConfig, cores: int, gpus: int) -> str:
    """Whether two processes would help on a machine with so many usable cores and GPUs, in a line for `check`."""
    on_gpu = gpus > 0 and not config.model.device.startswith("cpu")
    both = gpus > 1 if on_gpu else cores > 1
    where = f"{gpus} GPU" if on_gpu else f"{cores} core"
    where += "s" if (gpus if on_gpu else cores) > 1 else ""
    if config.asynchronous.enabled:
        return f"asynchronous: on, on {where}" + ("" if both else "; the two processes take turns: turn it off")
    if both:
        return f"asynchronous: off; --asynchronous.enabled would generate and train at the same time on {where}"
    return f"asynchronous: off, as {where} cannot generate and train at the same time"


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
    *,
    done: int = 0,
    waiting: Sequence[str] = (),
    max_rounds: int = 0,
    command: Sequence[str] = COMMAND,
) -> Iterator[Runner]:
    """What runs the rounds: the node itself, or the node with a generator process, which ends with the context.

    Args:
        config: as the user gave it, for both sides.
        log: takes the stderr of the generator process.
        done: rounds done before.
        waiting: rounds generated since, from a checkpoint.
        max_rounds: 0 for no end.
    """
    if not config.asynchronous.enabled:
        yield node
        return
    side = generator_side(config)
    weights = SharedWeights.create(policy)
    tried = os.fsencode(policy.tried.path or "")
    order = Order(settings_for(side), node.peer_id, weights.descriptor, list(weights.layout), tried)
    process = GeneratorProcess(order, side.threads, log, command)
    driver = AsynchronousNode(node, policy, weights, process, config.asynchronous.max_staleness, warn, max_rounds)
    try:
        driver.start(Round(done), waiting)
        yield driver
    finally:
        driver.close()
