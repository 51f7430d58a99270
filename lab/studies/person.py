"""Dose and effect of a person: a learner at the rarest setting, and somebody who answers a question now and then.

    python -m lab.studies.person --runs runs/studies/person       # interrupted, it goes on where it stopped
    python -m lab.studies.person --quick --json

One learner with the starter `rarest`, whose local groups are informative once in 200, and a scripted person who
publishes a group every so many rounds: one wrong draft, then the right one, over the tasks in turn. The dose is groups
a round; at dose 0 the learner is alone. Nodes live in one process on the swarm in memory, so that a dose is exact; that
groups typed in a browser reach the training of real nodes is shown by tests/extensions/browser/test_person.py. The
table has the rewards of each learner, the mean over seeds with a 95 % interval.
"""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from lab.benchmarks import command
from protocol.messages import Completion, Question, RolloutGroup, Round
from swarm_node.environments.registry import right_answer
from swarm_node.extensions.simulation.arms import Arm, Cell, cell_config
from swarm_node.extensions.simulation.cell import run_cell
from swarm_node.extensions.simulation.engines.population import LivePopulation
from swarm_node.extensions.simulation.node_options import node_config
from swarm_node.extensions.simulation.statistics import ci95
from swarm_node.node.network import build_rules
from swarm_node.rollouts.groups import Generated
from swarm_node.rollouts.interfaces import Environment, Network, Participant
from swarm_node.settings import ModelConfig, RoundConfig, SimulationConfig, TrainingConfig

ARM = Arm(4, 4)
DOSES = (0.0, 0.02, 0.1, 0.5, 1.0)  # groups a round
ROUNDS, SEEDS, LAST = 200, 3, 20
TRIAL = 5  # rounds from which the cost is told
SECONDS_A_DRAFT = 10.0  # of a person's time, a guess that only says what a dose would ask of one


class Person:
    """Implements interfaces.Participant. Answers `dose` questions a round; trains nothing."""

    def __init__(
        self, config: SimulationConfig, own: Any, peer: Any, environment: Environment, network: Network
    ) -> None:
        self._own, self._peer, self._environment, self._network = own, peer, environment, network
        self._dose = config_dose(config)
        self._answered = 0

    def produce(self, now: Round) -> Generated:
        """Nothing of its own to train on; what it publishes goes over the swarm."""
        due = int((now + 1) * self._dose + 1e-9) - int(now * self._dose + 1e-9)
        questions = self._environment.sample(self._peer, now, self._own.round.questions)
        self._network.publish([self._group(questions, now) for _ in range(due)], now)
        return Generated(now, [], {}, {})

    def consume(self, produced: Generated) -> Any:
        """A contributor only produces."""
        raise AssertionError(produced)

    def _group(self, questions: Sequence[Question], now: Round) -> RolloutGroup:
        question = questions[self._answered % len(questions)]
        self._answered += 1
        answer = right_answer(self._own.environment, question)
        drafts = tuple(Completion(text=text, ended=True) for text in (wrong(answer), answer))
        return RolloutGroup(author=self._peer, round=now, question=question, completions=drafts)


def wrong(answer: str) -> str:
    """A slip of the last character: another digit, or another letter."""
    last = answer[-1:]
    return answer[:-1] + (str((int(last) + 1) % 10) if last.isdigit() else "0")


def config_dose(config: SimulationConfig) -> float:
    """The dose is kept where a simulation has a name: it has no option for it."""
    return float(config.out.name)


class WithPerson(LivePopulation):
    """Node 1 is the person."""

    def join(self, node: int) -> Participant:
        """As in LivePopulation."""
        if node == 0:
            return super().join(node)
        own, who = node_config(self._config, node), self._identities[node]
        environment = self._environment(own)
        network = self._swarm.join(who, build_rules(own, environment).admission(who.peer_id))
        return Person(self._config, own, who.peer_id, environment, network)


def configuration(dose: float, rounds: int, seed: int) -> SimulationConfig:
    """Of one cell."""
    whole = SimulationConfig(
        model=ModelConfig(name="rarest", device="cpu"),
        round=RoundConfig(),
        training=TrainingConfig(),
        nodes=2,
        node_roles=("learner", "contributor"),
        rounds=rounds,
        seed=seed,
        threads=1,
        out=Path(str(dose)),
    )
    return cell_config(whole, Cell(ARM, seed))


def run(dose: float, rounds: int, seed: int) -> dict[str, Any]:
    """One cell, in this process."""
    config = configuration(dose, rounds, seed)
    torch.set_num_threads(1)
    population, began = WithPerson(config), time.monotonic()
    try:
        done = list(run_cell(config, Cell(ARM, seed), population))
    finally:
        population.close()
    questions = config.round.questions
    print(f"dose {dose:g}, seed {seed}: {time.monotonic() - began:.0f} s", flush=True)
    return {
        "dose": dose,
        "seed": seed,
        "rewards": [each.reward / questions for each in done],
        "informative": [each.informative_share for each in done],
        "used": sum(each.external_groups for each in done),
    }


def tell_the_cost(doses: Sequence[float], rounds: int, seeds: int) -> None:
    """Before anything long is begun: of the machine, and of a person who would do this by hand."""
    began = time.monotonic()
    run(1.0, TRIAL, 0)
    each = (time.monotonic() - began) / TRIAL * rounds  # with the start in it, so rather too much
    cells = len(doses) * seeds
    groups = rounds * max(doses)
    print(f"{cells} cells of {rounds} rounds: at most {cells * each / 60:.0f} minutes of one core")
    print(
        f"a person would type {groups:.0f} groups at the highest dose: {groups * 2 * SECONDS_A_DRAFT / 60:.0f} minutes"
    )


def interval(values: Sequence[float], digits: int = 3) -> str:
    """Mean, and half of the 95 % interval where there are several."""
    half = ci95(values) if len(values) > 1 else None
    return f"{fmean(values):.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


def summary(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of one dose, over its seeds."""
    return {
        "seeds": len(cells),
        "last": [fmean(cell["rewards"][-LAST:]) for cell in cells],
        "all": [fmean(cell["rewards"]) for cell in cells],
        "informative": [fmean(cell["informative"][-LAST:]) for cell in cells],
        "used": [cell["used"] for cell in cells],
    }


def options_of() -> argparse.Namespace:
    """The command line."""
    parser = command.parser("lab.studies.person", __doc__)
    command.add_quick(parser)
    command.add_runs(parser)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--doses", type=float, nargs="+", default=list(DOSES), help="groups a round")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seeds, options.doses = 12, 1, [0.0, 1.0]
        options.runs = options.runs / "quick"
    return options


def main() -> None:
    options = options_of()
    tell_the_cost(options.doses, options.rounds, options.seeds)
    found: dict[str, Any] = {}
    for dose in options.doses:
        names = [options.runs / f"{dose:g}-{options.rounds}-{seed}.json" for seed in range(options.seeds)]
        cells = [command.kept(file, partial(run, dose, options.rounds, seed)) for seed, file in enumerate(names)]
        found[f"{dose:g}"] = summary(cells)
    lines = [
        [
            dose,
            str(each["seeds"]),
            f"{fmean(each['used']):.0f}",
            interval(each["all"]),
            interval(each["last"]),
            interval(each["informative"]),
        ]
        for dose, each in found.items()
    ]
    last = f"last {LAST}"
    command.show(
        ["groups a round", "seeds", "trained on", "reward, all rounds", f"reward, {last}", f"informative, {last}"],
        lines,
    )
    first, best = fmean(found[f"{options.doses[0]:g}"]["last"]), fmean(found[f"{options.doses[-1]:g}"]["last"])
    command.finish(options, {"ratio": best / first if first else None, "doses": found, "rounds": options.rounds})


if __name__ == "__main__":
    main()
