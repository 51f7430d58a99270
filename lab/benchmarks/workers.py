"""One model on two workers, pinned to a core each, against one worker on one core: the wall time of
a round. Beside it one process with two threads, which is what a user of a CPU has.

    python -m lab.benchmarks.workers --json
    # cards instead of cores; the first name is the one device that they are compared with
    python -m lab.benchmarks.workers --devices cuda:0,cuda:1

A round generates, publishes to nobody, selects and trains, by the code of a node; the network is
off, and rewards cost nothing. All sides take turns, so that a disturbance affects all of them. At
the end a worker is killed: the seconds of the round in which that happens, and of those until
another worker has taken its place. Wall time means little while other programs use the machine.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from lab.benchmarks import command, common
from protocol.messages import PeerId, Question, Round
from swarm_node.generation.generator import BatchGenerator
from swarm_node.network.in_memory import Alone
from swarm_node.node.learner import Learner, build_node
from swarm_node.node.parallel import Workers, with_workers
from swarm_node.node.worker import serve
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import Catalogue, Played, Plays, Skipped, ToPlay
from swarm_node.settings import (
    GenerationConfig,
    LearningConfig,
    ModelConfig,
    NodeConfig,
    RoundConfig,
    TrainingConfig,
)
from swarm_node.training.trainer import GrpoTrainer

WORKER = "worker"  # the argument that makes this module a worker process
ONE, TWO, THREADS = "one worker", "workers", "one process, as many threads"
PROMPTS = 8  # of a round at most: an even number, so that two workers have as many
REPLACED = 300.0  # seconds within which another worker has to take the place of a killed one
WANTED = 0.65  # of the wall time of one worker


class Numbered:
    """An environment whose rewards are those of the other benchmarks: they differ in each group,
    whatever its texts are, so that no group is skipped.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self._prompts = common.prompts(lengths)

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        return [common.question(now, index) for index in range(count)]

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue({"lab": ("1", {"text": ("any",)})})

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        return [self._prompts[question.index] for question in questions]

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        return [self._played(len(episodes)) for _, episodes in asked]

    def _played(self, count: int) -> Plays:
        scores = common.rewards([""] * count)
        return tuple(Played(((),), True, score, "") for score in scores)

    def close(self) -> None:
        """It holds nothing."""


def policy_of(config: LearningConfig) -> Policy:
    """The model of this size on its device; the same weights in every process."""
    size, device = config.model.name, torch.device(config.model.device)
    made = common.model(size).to(device)
    autocast = torch.bfloat16 if device.type == "cuda" else None
    return Policy(made, common.tokenizer(size), device, autocast, size)


def configured(size: str, load: common.Workload, device: str) -> NodeConfig:
    prompts = len(load.prompt_lengths)
    return NodeConfig(
        threads=1,
        model=ModelConfig(name=size, device=device),
        generation=GenerationConfig(
            num_generations=common.GROUP_SIZE, max_completion_length=load.new_tokens
        ),
        round=RoundConfig(questions=prompts, local_groups=prompts, external_groups=0),
        training=TrainingConfig(learning_rate=common.RATE),
    )


@dataclass
class Side:
    """A node of its own, on some devices."""

    node: Any
    workers: Workers | None
    done: int = 0
    told: list[str] = field(default_factory=list)

    def round(self) -> None:
        """One round, which has to train on every token."""
        report = self.node.run_round(Round(self.done))
        assert report.step.optimizer_steps == 1, report
        self.done += 1


@contextmanager
def side(size: str, load: common.Workload, devices: Sequence[str], folder: Path) -> Iterator[Side]:
    """A node on these devices."""
    config = configured(size, load, devices[0])
    policy = policy_of(config)
    environment = Numbered(load.prompt_lengths)
    node = build_node(config, PeerId("benchmark"), environment, Alone(), policy, exact_mix=True)
    assert isinstance(node.generator, BatchGenerator) and isinstance(node.trainer, GrpoTrainer)
    learner, told = Learner(config, None, policy, node), list[str]()
    line = (sys.executable, "-m", "lab.benchmarks.workers", WORKER)
    with with_workers(devices, learner, folder / "log", told.append, command=line) as made:
        helpers = node.trainer.helpers
        workers = helpers if isinstance(helpers, Workers) else None
        yield Side(made.node, workers, told=told)


def pin(pid: int, cores: set[int]) -> None:
    """Lets all threads of a process run on these cores alone."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


def wall_seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turn(sides: Mapping[str, Callable[[], None]], repetitions: int) -> dict[str, list[float]]:
    """Wall seconds of each side, in turn; the first turn warms up and is dropped."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for repetition in range(repetitions + 1):
        for name, work in sides.items():
            taken[name].append(wall_seconds(work))
        latest = {name: seconds[-1] for name, seconds in taken.items()}
        if repetition:
            common.progress("round", repetition - 1, repetitions, latest, "wall s")
    return {name: seconds[1:] for name, seconds in taken.items()}


def killed(side: Side) -> dict[str, Any]:
    """Kills a worker between two rounds, and runs rounds until another one has taken its place."""
    assert side.workers is not None
    before = set(side.workers.pids)
    os.kill(min(before), signal.SIGKILL)
    seconds = first = wall_seconds(side.round)
    rounds = 1
    while not side.workers.complete and seconds < REPLACED:
        seconds += wall_seconds(side.round)
        rounds += 1
    assert side.workers.complete, f"no worker has come back within {REPLACED:.0f} seconds"
    return {"round": first, "until_replaced": seconds, "rounds_until_replaced": rounds}


def measure(
    size: str, load: common.Workload, devices: Sequence[str], cores: Sequence[int]
) -> dict[str, Any]:
    """All sides for one model size. `cores`: one for each worker; empty for devices that are no
    CPUs.
    """
    with (
        TemporaryDirectory() as folder,
        side(size, load, devices[:1], Path(folder)) as one,
        side(size, load, devices, Path(folder)) as several,
    ):
        workers = several.workers
        assert workers is not None

        def alone(threads: int = 1) -> None:
            if cores:
                pin(os.getpid(), set(cores[:threads]))
            torch.set_num_threads(threads)
            one.round()

        def shared() -> None:
            if cores:
                pin(os.getpid(), {cores[0]})
                for pid, core in zip(workers.pids, cores[1:], strict=True):
                    pin(pid, {core})
            torch.set_num_threads(1)
            several.round()

        sides = {ONE: alone, TWO: shared}
        if cores:
            sides[THREADS] = lambda: alone(len(cores))
        taken = in_turn(sides, load.repetitions)
        after_a_kill = killed(several)
    return {
        "seconds": {name: median(seconds) for name, seconds in taken.items()},
        "all_seconds": taken,
        "after_a_kill": after_a_kill,
    }


def main() -> None:
    if sys.argv[1:2] == [WORKER]:
        serve(policy_of)
        return
    parser = common.parser("lab.benchmarks.workers", __doc__, "tiny", "1M", "10M")
    parser.add_argument("--devices", help="names, such as cuda:0,cuda:1 (a core each for two)")
    arguments = parser.parse_args()
    common.settle()
    result = measured(arguments)
    command.finish(arguments, result)


def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    load = common.workload(arguments)
    load = replace(load, prompt_lengths=load.prompt_lengths[:PROMPTS])
    if arguments.devices:
        devices, cores = arguments.devices.split(","), []
    else:
        cores = sorted(os.sched_getaffinity(0))[:2]
        devices = ["cpu"] * len(cores)
    if len(devices) < 2:
        raise SystemExit("this needs two cores or two devices")
    usable = os.sched_getaffinity(0)
    try:
        sizes = {size: measure(size, load, devices, cores) for size in load.sizes}
    finally:
        pin(os.getpid(), usable)
    lines = []
    for size, found in sizes.items():
        base = found["seconds"][ONE]
        lines += [
            [size, name, f"{seconds:.2f}", f"{seconds / base:.2f}"]
            for name, seconds in found["seconds"].items()
        ]
    command.show(["model", "side", "seconds a round", "of one worker"], lines)
    last = sizes[load.sizes[-1]]["seconds"]
    return {
        "ratio": last[TWO] / last[ONE],
        "wanted": WANTED,
        "devices": devices,
        "sizes": sizes,
        "settings": {**common.settings(load), **command.versions("torch")},
    }


if __name__ == "__main__":
    main()
