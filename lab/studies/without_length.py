"""Is the default defence worse without its layer `length`? Every kind of attack, seed by seed.

    python -m lab.studies.without_length --cost
    # continues where it stopped: repeat it until nothing is left to do
    python -m lab.studies.without_length --at-most 12 --cores 1
    python -m lab.studies.without_length --report --out docs/results/poisoning
    python -m lab.studies.without_length --quick   # tiny, to see that it runs
    # what the layer drops of informative groups, kind by kind: seconds a seed, nothing is trained
    python -m lab.studies.without_length --reach --seeds 6

The eight nodes of a swarm train on 4 local and 4 external groups, with the starter `dense`. Half of
the nodes are hostile, and the figures are those of the last ten rounds. Both defences have the same
seeds, so they are compared seed by seed. The attacks `context` and `equation` need room for their
text, and completions have 32 tokens there. Under all other attacks the starter has a habit
(lab/studies/habit.py), without which clipping stops them.

Fixed before the first run: the default without `length` is *not worse* under an attack if the 95 %
interval of the paired difference ends at 5 points of attack success at most, and begins at 3 points
of accuracy lost at most. Those are the spreads of seeds that docs/results/poisoning.md had.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, get_args

from lab.benchmarks import command
from lab.studies import runner
from lab.studies.habit import with_habit
from lab.studies.runner import Run
from lab.studies.statistics import Comparison, compare
from protocol.messages import Round
from swarm_node.node.round import Node, score_groups
from swarm_node.rollouts.defence import LAYERS
from swarm_node.rollouts.groups import Group
from swarm_node.rollouts.interfaces import Environment
from swarm_node.settings.simulation import AttackConfig
from swarm_node.simulation.attacks.hostile import Victim
from swarm_node.simulation.engines.population import LivePopulation

ARM = "4/4"
WITH, WITHOUT = ("length", "ngrams", "rescue"), ("ngrams", "rescue")
KINDS = get_args(AttackConfig.model_fields["kind"].annotation)
WORDY = ("context", "equation")  # need room for the payload
STARTER, RATE, ROUNDS, NODES, SHARE = "dense", 6e-4, 30, 8, 0.5
SEEDS = range(9000, 9006)
REACH_ROUNDS = 3
WORSE_SUCCESS, WORSE_ACCURACY = 0.05, -0.03


@dataclass(frozen=True)
class Result:
    """One kind of attack: the default without `length` against the default with it."""

    kind: str
    success: Comparison | None  # None where nobody attacks
    accuracy: Comparison
    honest_refused: tuple[float, float]  # with and without; 0 where nothing was selected
    hostile_refused: tuple[float, float]

    @property
    def not_worse(self) -> bool | None:
        """Whether the defence without the layer is not worse, by the margins above; None for too
        few seeds.
        """
        accuracy = self.accuracy.difference_interval
        success = (0.0, 0.0) if self.success is None else self.success.difference_interval
        if accuracy is None or success is None:
            return None
        return success[1] <= WORSE_SUCCESS and accuracy[0] >= WORSE_ACCURACY


def run(kind: str, layers: Sequence[str], seed: int, options: argparse.Namespace) -> Run:
    """The run of one kind, one defence and one seed."""
    starter = STARTER
    if kind not in WORDY and not options.quick:
        starter = str(with_habit(STARTER, options.runs / f"{STARTER}-habit"))
    settings: dict[str, Any] = {
        "nodes": NODES,
        "rounds": 2 if options.quick else ROUNDS,
        "model": {"name": starter},
        "attack": {"kind": kind, "share": SHARE},
        "defence": {"layers": tuple(layers)},
    }
    if kind in WORDY:
        settings["generation"] = {"max_completion_length": 32}
    return runner.make(f"{kind}, {' '.join(layers)}", ARM, seed, RATE, **settings)


def is_done(kind: str, seed: int, options: argparse.Namespace) -> bool:
    """Whether both defences have been run with this seed."""
    runs = (run(kind, layers, seed, options) for layers in (WITH, WITHOUT))
    return all(made.report(options.runs) is not None for made in runs)


def result(kind: str, seeds: Sequence[int], options: argparse.Namespace) -> Result:
    """What the runs of a kind show, seed by seed. Raises NotDone where one is missing."""

    def reports(layers: Sequence[str]) -> list[dict[str, Any]]:
        runs = [run(kind, layers, seed, options) for seed in seeds]
        return [runner.needed(made, options.runs)["arms"][ARM] for made in runs]

    def compared(name: str, values: Sequence[float], base: Sequence[float]) -> Comparison:
        return compare(f"{kind}, {name}", values, base)

    base, values = reports(WITH), reports(WITHOUT)
    success = None
    if kind != "none":
        success = compared("attack success", success_of(values), success_of(base))
    return Result(
        kind,
        success,
        compared("accuracy", accuracy_of(values), accuracy_of(base)),
        (refused(base, "honest_refused"), refused(values, "honest_refused")),
        (refused(base, "hostile_refused"), refused(values, "hostile_refused")),
    )


def success_of(arms: Sequence[dict[str, Any]]) -> list[float]:
    return [arm["attack"]["success"][0] for arm in arms]


def accuracy_of(arms: Sequence[dict[str, Any]]) -> list[float]:
    return [arm["final_reward"][0] for arm in arms]


def refused(arms: Sequence[dict[str, Any]], name: str) -> float:
    """The mean over seeds of the share of selected groups that the defence refused."""
    return fmean((arm["attack"] or {}).get(name) or 0.0 for arm in arms)


@dataclass
class Met:
    """Groups that reach the defence of a node, and what the layer does to them."""

    admitted: int = 0  # groups that came
    informative: int = 0  # of those, the ones that the defence looks at
    dropped: int = 0  # completions of those that the layer drops

    def add(self, environment: Environment, own: Sequence[Group], groups: Sequence[Group]) -> None:
        """Counts these groups, which came in a round in which the node wrote `own`."""
        results = score_groups(environment, groups)
        scored = [result for result in results if isinstance(result, Group)]
        informative = [group for group in scored if group.informative]
        self.admitted += len(groups)
        self.informative += len(informative)
        kept = LAYERS["length"]().keep(own, informative, Random(0))
        for group, samples in zip(informative, kept, strict=True):
            self.dropped += len(group.samples) - len(samples)


def reach(kind: str, seeds: Sequence[int], options: argparse.Namespace) -> dict[str, Met]:
    """What the layer drops of hostile and of honest groups before anybody has learned anything.
    Where it drops nothing, runs with the layer and without it are the same.
    """
    met = {"hostile": Met(), "honest": Met()}
    for seed in seeds:
        config = run(kind, WITH, seed, options).config
        population = LivePopulation(config)
        try:
            victim, neighbour = node_of(population.make(0)), node_of(population.make(1))
            hostile = population.make(NODES - 1) if kind != "none" else None
            for now in map(Round, range(REACH_ROUNDS)):
                own = victim.generate(now).groups
                neighbour.produce(now)
                if hostile is not None:
                    hostile.produce(now)
                for group in victim.network.collect(now):
                    honest = group.author == neighbour.peer_id
                    met["honest" if honest else "hostile"].add(victim.environment, own, [group])
        finally:
            population.close()
    return met


def node_of(participant: object) -> Node:
    """The node of an honest participant."""
    node = participant.node if isinstance(participant, Victim) else participant
    assert isinstance(node, Node)
    return node


HEADER = (
    *("attack", "seeds", "success with", "without", "difference (95 %)"),
    *("accuracy with", "without", "difference (95 %)", "hostile refused", "not worse"),
)


def line(entry: Result) -> list[str]:
    """A row of the table."""
    success, accuracy = entry.success, entry.accuracy
    shown = ["-", "-", "-"] if success is None else figures(success, 2)
    both = f"{entry.hostile_refused[0]:.0%}, {entry.hostile_refused[1]:.0%}"
    words = {True: "yes", False: "no", None: "too few seeds"}[entry.not_worse]
    hostile = "-" if success is None else both
    return [entry.kind, f"{accuracy.seeds}", *shown, *figures(accuracy, 3), hostile, words]


def figures(compared: Comparison, digits: int) -> list[str]:
    """The mean with the layer, without it, and their difference with its interval."""
    ends = compared.difference_interval
    interval = f" ({ends[0]:+.{digits}f} to {ends[1]:+.{digits}f})" if ends else ""
    difference = f"{compared.difference:+.{digits}f}{interval}"
    return [f"{compared.base:.{digits}f}", f"{compared.mean:.{digits}f}", difference]


REACH_HEADER = ("attack", "groups of", "came", "informative", "completions dropped by length")


def show_reach(kinds: Sequence[str], seeds: Sequence[int], options: argparse.Namespace) -> None:
    """Counts for every kind, prints them, and writes them into a file."""
    found = {kind: reach(kind, seeds, options) for kind in kinds}
    lines = [
        [kind, whose, f"{met.admitted}", f"{met.informative}", f"{met.dropped}"]
        for kind, both in found.items()
        for whose, met in both.items()
        if met.admitted
    ]
    plain = {
        kind: {whose: asdict(met) for whose, met in both.items()} for kind, both in found.items()
    }
    results = {"seeds": len(seeds), "rounds": REACH_ROUNDS, "kinds": plain}
    file = command.out(options) / "reach_of_length.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    command.show(REACH_HEADER, lines)
    command.finish(options, results)


def main() -> None:
    parser = command.parser("lab.studies.without_length", __doc__)
    runner.add_options(parser)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="so many of the six")
    parser.add_argument(
        "--reach", action="store_true", help="what the layer drops before anybody has learned"
    )
    options = parser.parse_args()
    seeds = SEEDS[: options.seeds]
    # All kinds of one seed before the next seed: a table of few seeds is a whole table
    wanted = [
        run(kind, layers, seed, options)
        for seed in seeds
        for kind in options.kinds
        for layers in (WITH, WITHOUT)
    ]
    if options.reach:
        show_reach(options.kinds, seeds, options)
        return
    if not runner.do(wanted, options):
        return
    results: list[Result] = []
    for kind in options.kinds:
        done = [
            seed
            for seed in seeds
            if all(
                run(kind, layers, seed, options).report(options.runs) for layers in (WITH, WITHOUT)
            )
        ]
        results += [result(kind, done, options)] if done else []
    found = [{**asdict(entry), "not_worse": entry.not_worse} for entry in results]
    file: Path = command.out(options) / "without_length.json"
    file.write_text(json.dumps(found, indent=1) + "\n")
    command.show(HEADER, [line(entry) for entry in results])
    command.finish(options, {"results": found})


if __name__ == "__main__":
    main()
