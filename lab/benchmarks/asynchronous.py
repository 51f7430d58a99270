"""Wall-clock of a node that generates and trains in turn, and of one that does both at the same time.

    python -m lab.benchmarks.asynchronous --json                      # 1 M and 10 M parameters, 2 free cores
    python -m lab.benchmarks.asynchronous --sizes 1M --staleness 0 1 2 4 8
    python -m lab.benchmarks.asynchronous --sizes 1M --long-tail      # long-tailed lengths, interruption off and on

Every side is the whole node in a process of its own: questions, decoding, scoring, selection, update. All sides
generate and train on the same numbers of samples, and run in turn. Figures are wall-clock: nothing else may run on the
machine.

The limit: with w seconds of generation and t of training per round of one thread, two processes cannot take less than
max(w, t), so the gain over the synchronous run is at most (w + t) / max(w, t).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import perf_counter, process_time
from typing import Any

import psutil
import torch

from lab.benchmarks import command, common
from protocol.identity import Identity
from protocol.messages import PeerId, Question, Round
from swarm_node.network.alone import Alone
from swarm_node.node.driver import driving
from swarm_node.node.learner import build_node
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.catalogue import Catalogue
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings import AsynchronousConfig, GenerationConfig, LearningConfig, ModelConfig, RoundConfig
from swarm_node.settings.secret import revealed

WARM_UP = 2  # rounds
ROUNDS = {"tiny": 3, "1M": 12, "10M": 4}
LONG_TAIL = "-long-tail"  # marks a size whose model has four tokens that end a completion: mean length about 25
LONG_LIMIT = 192  # tokens
DEMAND = 1.4  # of 1 M parameters


class Digits:
    """An environment without cost: the prompts of the other benchmarks; the reward is the share of digits."""

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        first = Question(environment="bench", version="1", dataset="digits", config_id="all", seed=0, index=0)
        return [first.model_copy(update={"index": index}) for index in range(count)]

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue()

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        texts = common.prompts(common.FULL.prompt_lengths)
        return [texts[question.index] for question in questions]

    def score(self, completions: Sequence[tuple[Question, Sequence[str]]]) -> list[tuple[float, ...] | Skipped]:
        return [tuple(sum(c.isdigit() for c in text) / max(1, len(text)) for text in texts) for _, texts in completions]

    def close(self) -> None:
        pass


def build(config: LearningConfig) -> tuple[Policy, Digits]:
    common.settle()
    size = config.model.name.removesuffix(LONG_TAIL)
    policy = Policy(common.model(size), common.tokenizer(), torch.device("cpu"), None, size)
    if config.model.name != size:
        policy.eos_ids = frozenset({10, 20, 30, 40})
    torch.set_num_threads(config.threads)
    return policy, Digits()


def configuration(size: str, threads: int, asynchronous: AsynchronousConfig) -> LearningConfig:
    questions = len(common.FULL.prompt_lengths)
    limit = LONG_LIMIT if size.endswith(LONG_TAIL) else common.FULL.new_tokens
    return LearningConfig(
        model=ModelConfig(name=size),
        generation=GenerationConfig(num_generations=common.GROUP_SIZE, max_completion_length=limit),
        round=RoundConfig(questions=questions, local_groups=questions, external_groups=0),
        threads=threads,
        asynchronous=asynchronous,
    )


def run_side(config: LearningConfig, rounds: int, trainer_threads: int) -> dict[str, Any]:
    """One side, in this process and what it starts: wall seconds per round, and where they went."""
    policy, environment = build(config)
    node = build_node(config, Identity.from_seed_bytes(b"b" * 32).peer_id, environment, Alone(), policy)
    generator = (sys.executable, "-m", "lab.benchmarks.asynchronous_child")
    with (
        tempfile.TemporaryDirectory() as folder,
        driving(config, node, policy, Path(folder) / "log", print, command=generator) as driver,
    ):
        torch.set_num_threads(trainer_threads)
        # The generator is equally far ahead when the clock starts and stops, so it generated as much as was trained on.
        for number in range(WARM_UP):
            driver.run_round(Round(number))
        pids = [process.pid for process in psutil.Process().children()]  # the generator; a sync side has none
        began, cpu = perf_counter(), cpu_seconds(pids)
        reports = [driver.run_round(Round(WARM_UP + number)) for number in range(rounds)]
        wall = (perf_counter() - began) / rounds
        used = [(after - before) / rounds for before, after in zip(cpu, cpu_seconds(pids), strict=True)]
    overlaps = [report.overlap for report in reports if report.overlap]
    return {
        "wall": wall,
        "cpu": used,
        "generate": fmean(r.seconds["generate"] + r.seconds["score"] for r in reports),
        "train": fmean(r.seconds["train"] for r in reports),
        "written_tokens": sum(r.generated_tokens for r in reports) / rounds,
        "trained_tokens": sum(r.step.trained_tokens for r in reports) / rounds,
        "rollouts_per_second": common.GROUP_SIZE * len(common.FULL.prompt_lengths) / wall,
        "staleness": fmean(r.step.staleness for r in reports),
        "generator_busy": fmean(o.generating for o in overlaps) if overlaps else None,
        "trainer_busy": fmean(o.training for o in overlaps) if overlaps else None,
    }


def cpu_seconds(pids: Sequence[int]) -> list[float]:
    """Of this process, and of each of the others."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return [process_time(), *(t.user + t.system for t in times)]


@dataclass(frozen=True)
class Side:
    how: AsynchronousConfig
    trainer_threads: int  # all threads of a synchronous node
    generator_threads: int = 1


def measure(size: str, sides: dict[str, Side], rounds: int, repetitions: int) -> dict[str, dict[str, Any]]:
    """Every side in a fresh process, in turn; of each the fastest repetition, since other work only adds time."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for repetition in range(repetitions):
        for name, side in sides.items():
            threads = side.trainer_threads
            config = configuration(size, side.generator_threads if side.how.enabled else threads, side.how)
            order = json.dumps({"config": revealed(config), "rounds": rounds, "trainer_threads": threads})
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
            if side.how.enabled:
                environment["OMP_WAIT_POLICY"] = "passive"  # threads that wait leave the core to the other process
            again = [sys.executable, "-m", "lab.benchmarks.asynchronous", "--order", order]
            said = subprocess.run(again, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
            runs[name].append(json.loads(said.splitlines()[-1]))
            latest = runs[name][-1]
            print(f"{size} {name} {repetition + 1}/{repetitions}: {latest['wall']:.3f} s a round", flush=True)
    return {
        name: {**min(several, key=lambda run: run["wall"]), "walls": [run["wall"] for run in several]}
        for name, several in runs.items()
    }


def all_sides(arguments: argparse.Namespace) -> dict[str, Side]:
    off = AsynchronousConfig()
    sides = {"synchronous, 1 thread": Side(off, 1), "synchronous, 2 threads": Side(off, 2)}
    for staleness in arguments.staleness:
        for interrupt in (False, True) if arguments.long_tail else (False,):
            how = AsynchronousConfig(enabled=True, max_staleness=staleness, interrupt=interrupt)
            words = ", interruptible" if interrupt else ""
            for threads in arguments.trainer_threads:
                sides[f"asynchronous {threads} + 1, staleness <= {staleness}{words}"] = Side(how, threads)
    return sides


def compared(size: str, sides: dict[str, dict[str, Any]]) -> dict[str, Any]:
    synchronous = {name: side for name, side in sides.items() if name.startswith("synchronous")}
    best = min(synchronous, key=lambda name: synchronous[name]["wall"])
    one = synchronous["synchronous, 1 thread"]
    limit = (one["generate"] + one["train"]) / max(one["generate"], one["train"])
    fastest = min((name for name in sides if name not in synchronous), key=lambda name: sides[name]["wall"])
    lines = [
        [
            name,
            f"{side['wall']:.3f}",
            f"{side['rollouts_per_second']:.1f}",
            f"{side['generate']:.3f} / {side['train']:.3f}",
            f"{side['staleness']:.2f}",
            "" if side["generator_busy"] is None else f"{side['generator_busy']:.0%} / {side['trainer_busy']:.0%}",
            f"{sides[best]['wall'] / side['wall']:.2f}x",
        ]
        for name, side in sides.items()
    ]
    command.show([size, "s/round", "rollouts/s", "generate / train s", "staleness", "busy", "over best sync"], lines)
    ratio = sides[best]["wall"] / sides[fastest]["wall"]
    by_cpu = one["cpu"][0] / max(sides[fastest]["cpu"])
    print(f"{size}: {ratio:.2f}x over {best}; at most {limit:.2f}x for this split of generation and training")
    print(f"{size}: {by_cpu:.2f}x by CPU time of the busier process, which other work on the machine hardly disturbs")
    found = {"size": size, "ratio": ratio, "cpu_ratio": by_cpu, "limit": limit}
    return {**found, "best_synchronous": best, "fastest": fastest, "sides": sides}


def main() -> None:
    parser = common.parser("lab.benchmarks.asynchronous", __doc__, "tiny", "1M", "10M")
    parser.add_argument("--staleness", type=int, nargs="*", default=[1], help="max_staleness of asynchronous sides")
    parser.add_argument("--trainer-threads", type=int, nargs="*", default=[1, 2], help="of asynchronous sides")
    parser.add_argument("--long-tail", action="store_true", help="lengths with a long tail; interruption off and on")
    parser.add_argument("--rounds", type=int, default=0, help="measured rounds of each side")
    parser.add_argument("--order", help=argparse.SUPPRESS)  # one side, in the process that was started for it
    arguments = parser.parse_args()
    if arguments.order:
        order = json.loads(arguments.order)
        config = LearningConfig.model_validate(order["config"])
        print(json.dumps(run_side(config, order["rounds"], order["trainer_threads"])))
        return
    sizes = arguments.sizes or (["tiny"] if arguments.quick else ["1M", "10M"])
    results = []
    for size in sizes:
        rounds = arguments.rounds or ROUNDS[size]
        name = size + (LONG_TAIL if arguments.long_tail else "")
        repetitions = arguments.repetitions or (1 if arguments.quick else 2)
        results.append(compared(name, measure(name, all_sides(arguments), rounds, repetitions)))
    command.finish(arguments, {"ratio": results[0]["ratio"], "demand": DEMAND, "results": results})


if __name__ == "__main__":
    main()
