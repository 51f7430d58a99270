"""Rounds per second of a node while fresh identities send it completions that hang its scorer, and while they do not.

    python -m lab.benchmarks.hanging --json        # docs/results/scoring.md

One starter, its own scoring processes, and a crowd in place of the network: every round it brings a group of each
of eight honest authors, and in an attack 16 groups of as many identities never seen before, each of which hangs the
scorer until it is stopped. Quiet and attacked stretches take turns in one run. "in step": external groups are scored as
they are selected, which is what nodes did; "ahead": in a thread, on a budget, which is what they do.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from lab.benchmarks import command
from lab.benchmarks.hanging_source import HANG, HangingTasks
from protocol import codec
from protocol.identity import Identity
from protocol.messages import Completion, PeerId, RolloutGroup, Round
from swarm_node.environments.reasoning_gym.source import build
from swarm_node.environments.registry import build_environment
from swarm_node.node.external import scoring_ahead
from swarm_node.node.learner import build_node
from swarm_node.node.round import Node
from swarm_node.rollouts.groups import ExternalGroup
from swarm_node.rollouts.interfaces import Environment, Network
from swarm_node.rollouts.reports import RoundReport
from swarm_node.settings import EnvironmentConfig, GenerationConfig, LearningConfig, ModelConfig, RoundConfig

SOURCE = f"{Path(__file__).with_name('hanging_source.py')}:{HangingTasks.__name__}"
HONEST, HOSTILE = 8, 16  # groups that come every round
WANTED = 4  # external groups that a round selects
WARM_UP = 5.0  # seconds


@dataclass
class Crowd(Network):
    """All that other peers do."""

    environment: Environment
    attack: bool = False
    faults: list[str] = field(default_factory=list)

    def publish(self, groups: Sequence[RolloutGroup], now: Round) -> None:
        pass

    def collect(self, now: Round) -> list[ExternalGroup]:
        honest = [self._group(PeerId(f"honest {k}"), now, hangs=False) for k in range(HONEST)]
        hostile = [self._group(PeerId(f"minted {now} {k}"), now, hangs=True) for k in range(HOSTILE * self.attack)]
        return [*honest, *hostile]

    def verdict(self, external: ExternalGroup, useful: bool, fault: str = "") -> None:
        self.faults += [fault] if fault else []

    def rejections(self) -> Mapping[str, int]:
        return {}

    def _group(self, author: PeerId, now: Round, *, hangs: bool) -> ExternalGroup:
        (question,) = self.environment.sample(author, now, 1)
        key = str(build(question.dataset, question.config_id, question.seed, question.index).entry["answer"])
        texts = [HANG] * 8 if hangs else [key, "x", key, "y", key, "z", key, "w"]
        completions = tuple(Completion(text=text, ended=True) for text in texts)
        group = RolloutGroup(author=author, round=now, question=question, completions=completions)
        return ExternalGroup(group, codec.content_hash(codec.encode(group)))


def configuration() -> LearningConfig:
    return LearningConfig(
        model=ModelConfig(name="rare"),
        generation=GenerationConfig(max_completion_length=16),
        environment=EnvironmentConfig(use=(SOURCE,)),
        round=RoundConfig(questions=9, local_groups=5, external_groups=WANTED),
    )


@contextmanager
def node(ahead: bool) -> Iterator[tuple[Node, Crowd]]:
    """A node and its crowd."""
    config, peer_id = configuration(), Identity.from_seed_bytes(b"h" * 32).peer_id
    environment = build_environment(config)
    crowd = Crowd(environment)
    try:
        if ahead:
            with scoring_ahead(config, peer_id) as scoring:
                yield build_node(config, peer_id, environment, crowd, external=scoring), crowd
        else:
            yield build_node(config, peer_id, environment, crowd), crowd
    finally:
        environment.close()


def measure(ahead: bool, seconds: float, turns: int) -> dict[str, Any]:
    """Quiet and attacked stretches of so many seconds in turn."""
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    with node(ahead) as (each, crowd):
        _, now = stretch(each, Round(0), WARM_UP)
        for _ in range(turns):
            for attack in (False, True):
                crowd.attack, crowd.faults = attack, []
                figures, now = stretch(each, now, seconds)
                found[attack].append(figures | {"hung": float(len(crowd.faults))})
    rates = {attack: median(figures["rounds_per_second"] for figures in all_) for attack, all_ in found.items()}
    return {
        "quiet": found[False],
        "attacked": found[True],
        "left_of_rounds_per_second": rates[True] / rates[False],
        "external_groups": {
            "quiet": fmean(figures["external"] for figures in found[False]),
            "attacked": fmean(figures["external"] for figures in found[True]),
        },
    }


def stretch(each: Node, now: Round, seconds: float) -> tuple[dict[str, float], Round]:
    """As many rounds as fit, at least one."""
    began, longest = time.monotonic(), 0.0
    reports: list[RoundReport] = []
    while not reports or time.monotonic() - began < seconds:
        start = time.monotonic()
        reports.append(each.run_round(now))
        now, longest = Round(now + 1), max(longest, time.monotonic() - start)
    wall = time.monotonic() - began
    figures = {
        "rounds": float(len(reports)),
        "rounds_per_second": len(reports) / wall,
        "longest": longest,
        "external": fmean(report.external_informative for report in reports),
    }
    return figures, now


def main() -> None:
    """Prints a line for each way of scoring."""
    parser = command.parser("lab.benchmarks.hanging", __doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="of a stretch")
    parser.add_argument("--turns", type=int, default=4, help="quiet and attacked stretches; in step one")
    options = parser.parse_args()
    results = {
        "in step": measure(False, options.seconds, 1),
        "ahead": measure(True, options.seconds, options.turns),
    }
    lines = []
    for name, result in results.items():
        for kind in ("quiet", "attacked"):
            stretches = result[kind]
            rate, longest = median(s["rounds_per_second"] for s in stretches), max(s["longest"] for s in stretches)
            external, hung = fmean(s["external"] for s in stretches), sum(s["hung"] for s in stretches)
            lines.append([name, kind, f"{rate:.2f}", f"{longest:.1f}", f"{external:.1f}", f"{hung:.0f}"])
    command.show(["scored", "crowd", "rounds/s", "longest, s", "external groups a round", "hung"], lines)
    command.finish(options, results)


if __name__ == "__main__":
    main()
