"""One model on two workers, pinned to a core each, against one worker on one core: the wall time of
a round. Beside it one process with two threads, which is what a user of a CPU has.

    python -m lab.benchmarks.workers --json
    # cards instead of cores; the first name is the one device that they are compared with
    python -m lab.benchmarks.workers --devices cuda:0,cuda:1

A round generates, publishes to nobody, selects and trains, by the code of a node; the network is
off, and rewards cost nothing. All sides take turns, so that a disturbance affects all of them. At
the end a worker is killed: the seconds of the round in which that happens, and of those until
another worker has taken its place. Wall time means little while other programs use the machine.
Therefore the CPU time of the busiest process of a round stands beside it: the wall time of a round
would be no shorter on cores that nothing else uses, and longer only where one process waits for
another one.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
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


def cpu_seconds(pids: Sequence[int]) -> dict[int, float]:
    """The CPU time so far of this process and of those workers that are there."""
    taken = {os.getpid(): time.process_time()}
    for pid in pids:
        with suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            taken[pid] = times.user + times.system
    return taken


def busiest(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """The CPU seconds between two readings of the process that used most. A process that is in one
    reading alone does not count.
    """
    return max(after[pid] - before[pid] for pid in before.keys() & after.keys())


@dataclass(frozen=True)
class Taken:
    """What the rounds of each side took, in the order in which they were done."""

    wall: Mapping[str, list[float]]
    busiest: Mapping[str, list[float]]  # CPU seconds of the process that used most


def in_turn(
    sides: Mapping[str, Callable[[], None]], repetitions: int, pids: Callable[[], Sequence[int]]
) -> Taken:
    """What each side takes, in turn; the first turn warms up and is dropped. `pids`: of the
    workers.
    """
    wall: dict[str, list[float]] = {name: [] for name in sides}
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    for repetition in range(repetitions + 1):
        for name, work in sides.items():
            before = cpu_seconds(pids())
            wall[name].append(wall_seconds(work))
            cpu[name].append(busiest(before, cpu_seconds(pids())))
        latest = {name: seconds[-1] for name, seconds in wall.items()}
        if repetition:
            common.progress("round", repetition - 1, repetitions, latest, "wall s")
    return Taken(*({name: made[1:] for name, made in of.items()} for of in (wall, cpu)))


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
        taken = in_turn(sides, load.repetitions, lambda: workers.pids)
        after_a_kill = killed(several)
    return {
        "seconds": {name: median(seconds) for name, seconds in taken.wall.items()},
        "all_seconds": taken.wall,
        "busiest_seconds": {name: median(seconds) for name, seconds in taken.busiest.items()},
        "all_busiest_seconds": taken.busiest,
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
        wall, cpu = found["seconds"], found["busiest_seconds"]
        for name in wall:
            # The CPU time of one process is that of all its threads, and says nothing of wall time
            busy = [f"{cpu[name]:.2f}", f"{cpu[name] / cpu[ONE]:.2f}"]
            ratio = f"{wall[name] / wall[ONE]:.2f}"
            lines.append(
                [size, name, f"{wall[name]:.2f}", ratio, *(busy if name != THREADS else "--")]
            )
    heads = ["seconds a round", "of one worker", "CPU seconds of the busiest process"]
    command.show(["model", "side", *heads, "of one worker"], lines)
    last = sizes[load.sizes[-1]]
    return {
        "ratio": last["seconds"][TWO] / last["seconds"][ONE],
        "busiest_ratio": last["busiest_seconds"][TWO] / last["busiest_seconds"][ONE],
        "wanted": WANTED,
        "devices": devices,
        "sizes": sizes,
        "settings": {**common.settings(load), **command.versions("torch")},
    }


if __name__ == "__main__":
    main()
