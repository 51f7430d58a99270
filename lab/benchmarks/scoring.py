"""Scores per second and core with the sandbox on, in batches as they occur in a round, and the
share of a round that scoring takes.

    python -m lab.benchmarks.scoring --json        # docs/results/scoring.md

A round of one node with the default defence: prompts and scores of 9 local groups of 8 completions;
4 informative external groups, each of another author; 4 local groups on the same prompts. CPU time
is that of the node's side, the scoring process, the fork server and all children. The share is that
of a starter's round in a swarm of eight; the simulation's own clock measures its other phases.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import Any

import psutil

from lab.benchmarks import command
from lab.benchmarks.swarm import PHASES, our_rounds
from protocol.messages import PeerId, Question, Round
from swarm_node.environments.reasoning_gym.catalogue import STARTER_TASKS
from swarm_node.environments.reasoning_gym.environment import ReasoningGym
from swarm_node.scoring import sandbox
from swarm_node.scoring.client import ScoringClient

GROUP_SIZE, QUESTIONS = 8, 9
EXTERNAL_GROUPS = 4

Batch = list[tuple[Question, list[str]]]


class Workload:
    """Rounds of one node, with new authors and completions, so that no cache helps."""

    def __init__(self, gym: ReasoningGym) -> None:
        self._gym = gym
        self._authors = 0

    def groups(self, count: int) -> Batch:
        """`count` groups of one new author."""
        self._authors += 1
        questions = self._gym.sample(PeerId(f"author {self._authors}"), Round(0), QUESTIONS)
        begin = self._authors % QUESTIONS  # all tasks in turn
        chosen = (questions[begin:] + questions[:begin])[:count]
        return [
            (question, [f"{self._authors % 97 + k}" for k in range(GROUP_SIZE)])
            for question in chosen
        ]

    def local(self) -> list[Batch]:
        return [self.groups(QUESTIONS)]

    def external(self, authors: int = 1) -> Batch:
        return [group for _ in range(authors) for group in self.groups(1)]

    def round(self) -> list[Batch]:
        received = self.external(EXTERNAL_GROUPS)
        rescuing = [(question, [f"0{text}" for text in texts]) for question, texts in received]
        return [*self.local(), received, rescuing]


def measure(gym: ReasoningGym, make: Callable[[], list[Batch]], calls: int) -> dict[str, float]:
    """Scores per second of CPU and of wall clock, and CPU milliseconds a call."""
    prepared = [make() for _ in range(calls + 1)]
    _score(gym, prepared.pop())
    cpu, began = cpu_seconds(gym), time.perf_counter()
    for batches in prepared:
        _score(gym, batches)
    wall, cpu = time.perf_counter() - began, cpu_seconds(gym) - cpu
    scores = GROUP_SIZE * sum(len(batch) for batches in prepared for batch in batches)
    return {
        "per_cpu_second": scores / cpu,
        "per_second": scores / wall,
        "cpu_ms": 1000 * cpu / calls,
    }


def _score(gym: ReasoningGym, batches: list[Batch]) -> None:
    """Scores as a node does: it builds local prompts before their completions, external prompts
    when it scores them.
    """
    for batch in batches:
        questions = [question for question, _ in batch]
        if len(batch) == QUESTIONS:
            gym.prompts(questions)
        assert all(isinstance(rewards, tuple) for rewards in gym.score(batch))
        gym.prompts(questions)


def cpu_seconds(gym: ReasoningGym) -> float:
    """CPU seconds of this process, of the scoring process and of all processes that it started,
    ended ones included.
    """
    assert isinstance(gym.scoring, ScoringClient)
    scoring, spent = psutil.Process(gym.scoring.pid), time.process_time()
    # An ended one counts in its parent's time
    for process in (*scoring.children(recursive=True)[::-1], scoring):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            spent += times.user + times.system + times.children_user + times.children_system
    return spent


def share_of_round(scoring_ms: float, rounds: int) -> dict[str, float]:
    """Scoring's share of a starter's round: scoring as measured here, the rest as in a simulation
    of eight nodes.
    """
    nodes = 8
    phases = [row["seconds"] for row in our_rounds("rare", nodes, rounds)]
    others = [1000 * sum(row[name] for name in PHASES if name != "score") / nodes for row in phases]
    shared = [1000 * row["score"] / nodes for row in phases]
    rest = median(others)
    return {
        "scoring_ms": scoring_ms,
        "other_ms": rest,
        "share": scoring_ms / (scoring_ms + rest),
        # Per node; nodes of a simulation share one scoring process
        "simulation_scoring_ms": median(shared),
        "simulation_share": median(shared) / (median(shared) + rest),
    }


def main() -> None:
    parser = command.parser("lab.benchmarks.scoring", __doc__)
    command.add_quick(parser)
    parser.add_argument(
        "--calls", type=int, default=300, help="rounds, or groups, of each measurement"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=10,
        help="rounds of the simulation that gives the other phases",
    )
    options = parser.parse_args()
    calls, rounds = (5, 1) if options.quick else (options.calls, options.rounds)
    gym = ReasoningGym(STARTER_TASKS, "exact")
    workload = Workload(gym)
    _score(gym, workload.round())  # starts the scoring process
    assert isinstance(gym.scoring, ScoringClient)
    result: dict[str, Any] = {
        "layers": sandbox.layers(),
        "round": measure(gym, workload.round, calls),
        "local groups, one child": measure(gym, workload.local, calls),
        "one group of another, one child": measure(gym, lambda: [workload.external()], calls),
    }
    gym.close()
    result["share"] = share_of_round(result["round"]["cpu_ms"], rounds)
    result["ratio"] = result["round"]["per_cpu_second"] / 5000
    names = ("round", "local groups, one child", "one group of another, one child")
    lines = [
        [name, f"{result[name]['per_cpu_second']:.0f}", f"{result[name]['cpu_ms']:.2f}"]
        for name in names
    ]
    command.show(["", "scores per CPU second", "ms CPU"], lines)
    print(", ".join(f"{name} {value:.3f}" for name, value in result["share"].items()))
    command.finish(options, result)


if __name__ == "__main__":
    main()
