"""What do informative groups of others bring in places of local groups that teach nothing?

    python -m lab.studies.filling very_rare --cost          # what it would cost
    python -m lab.studies.filling very_rare --at-most 4     # goes on where it stopped
    python -m lab.studies.filling specialists --report      # of what is done
    python -m lab.studies.filling very_rare --quick         # tiny, to see that it runs

Eight nodes train a starter on the same nine tasks, with an arm for each way to choose the groups of
a round: as many external groups as local ones (4/4), twice as many (4/8), external ones in the
places of uninformative local ones too (4/4:fill), and the default of `run` without and with such
places. All arms of a starter have one learning rate, and share questions and weights seed by seed.

Every arm is set against 4/4: in held-out accuracy at the end, at equal rounds, generated tokens,
trained tokens and CPU time, where both have spent what the cheaper one spent in all; and in the
reward of its completions over the whole run. `cost` does the same for external groups of which only
some completions are trained on, against the same arm with all of them, and `prefix` for beginnings
of others' right completions. `specialists` asks what the nodes of `lab.studies.samplers` lose of
their own tasks, against nodes that train alone.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

from lab.benchmarks import command
from lab.studies import runner, samplers
from lab.studies.equal_price import accuracy, spent
from lab.studies.runner import Run
from lab.studies.statistics import Comparison, compare, compared_line, holm
from swarm_node.settings import DefenceConfig

SEEDS = range(7000, 7004)  # fixed before the first run
AXES = ("rounds", "generated_tokens", "trained_tokens", "cpu_seconds")
DEFENDED: Mapping[str, Any] = {"defence": dict(DefenceConfig())}
FILLED = 4  # places of local groups that the default of `run` is tried with
# Informative groups of a round by where they come from, and what a table calls them
GROUPS = {
    "local_informative": "own",
    "external_informative": "of others",
    "guided_informative": "guided",
}
Report = Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """How the nodes of an arm choose the groups of a round, and what else they do differently."""

    groups: str  # as `simulate` takes them
    options: Mapping[str, Any] = field(default_factory=dict)


PLACES: Mapping[str, Arm] = {
    "4/4": Arm("4/4"),
    "4/8": Arm("4/8"),
    "4/4 fill": Arm("4/4:fill"),
    "default": Arm("8/4", DEFENDED),
    "default fill": Arm("8/4", {"round": {"fill": FILLED}, **DEFENDED}),
}
# Of the same external groups fewer completions
PAIRS: Mapping[str, Arm] = {
    "4/4 fill": PLACES["4/4 fill"],
    "4/4 fill, 2 pairs": Arm("4/4:fill", {"round": {"external_pairs": 2}}),
    "4/4 fill, 1 pair": Arm("4/4:fill", {"round": {"external_pairs": 1}}),
}
# Beginnings of others' right completions: an answer of these tasks has one to six characters
PREFIXES: Mapping[str, Arm] = {
    "4/4": PLACES["4/4"],
    "4/4, prefix": Arm("4/4", {"round": {"prefix": 2}}),
}


@dataclass(frozen=True)
class Part:
    """One question of the study: a starter and the arms that are compared on it, the first one with
    each of the others.
    """

    model: str
    arms: Mapping[str, Arm]
    rounds: int
    rate: float = 6e-4  # the best one of sharing arms on these starters: docs/results/sharing.md
    every: int = 10  # rounds from one evaluation to the next


PARTS: Mapping[str, Part] = {
    "very_rare": Part("very_rare", PLACES, 30),
    "rarest": Part("rarest", PLACES, 50),
    "dense": Part("dense", PLACES, 20),
    "cost": Part("very_rare", PAIRS, 30),
    "prefix": Part("very_rare", PREFIXES, 30),
}
# The swarm, the rates and the rows of `lab.studies.samplers`
DEFAULT = "defended 8/4"
SPECIALISTS, FRESH, SHARING_RATE = "specialists", samplers.FRESH["rare"][:8], 3e-4
ALONE_RATES = {"final_local": 1.5e-4, "final_other": 6e-4}
KEPT = command.ROOT / "docs" / "results" / "sharing" / "never_hurts.csv"


def run(part: Part, name: str, seed: int, quick: bool = False) -> Run:
    """The run of an arm of this part."""
    arm = part.arms[name]
    settings: dict[str, Any] = {
        "nodes": 8,
        "rounds": part.rounds,
        "model": {"name": part.model},
        "evaluate_every": part.every,
        "evaluate_questions": 16,
        "evaluate_samples": 1,
    }
    if quick:
        settings |= {"nodes": 2, "rounds": 4, "evaluate_every": 2, "evaluate_questions": 1}
    return runner.make(
        f"{part.model}, {name}", arm.groups, seed, part.rate, **settings, **arm.options
    )


def specialist(seed: int, quick: bool = False, fill: int = FILLED) -> Run:
    """The run of the default of `run` among specialists, with so many filled places."""
    options = argparse.Namespace(quick=quick, hostile=False, setting="rare")
    plain = samplers.run(options, DEFAULT, seed, SHARING_RATE)
    if not fill:
        return plain
    round_ = plain.config.round.model_copy(update={"fill": fill})
    config = plain.config.model_copy(update={"round": round_})
    return replace(plain, name=f"{DEFAULT} fill", config=config)


def figures(report: Report, axis: str, price: float) -> float:
    """Held-out accuracy when each node had spent `price`."""
    return accuracy(report, "all_tasks", axis, price)


def reward(report: Report) -> float:
    """The mean reward of a completion over all rounds of a run."""
    (arm,) = report["arms"].values()
    return float(fmean(arm["rewards"][0]) / report["questions"])


def in_pairs_of(reports: Mapping[str, Sequence[Report]], first: str) -> dict[str, list[Comparison]]:
    """For each axis, and for the reward over the run, every arm against the first one, seed by
    seed. The comparisons of an axis are one family.
    """
    found: dict[str, list[Comparison]] = {}
    base = reports[first]
    for axis in AXES:
        compared = []
        for name in (name for name in reports if name != first):
            pairs = list(zip(reports[name], base, strict=True))
            ends = [min(spent(one, axis)[-1], spent(other, axis)[-1]) for one, other in pairs]
            priced = list(zip(pairs, ends, strict=True))
            values = [figures(one, axis, end) for (one, _), end in priced]
            against = [figures(other, axis, end) for (_, other), end in priced]
            compared.append(compare(name, values, against))
        found[axis] = corrected(compared)
    rewards = {name: [reward(report) for report in of] for name, of in reports.items()}
    found["reward"] = corrected(
        [compare(name, of, rewards[first]) for name, of in rewards.items() if name != first]
    )
    return found


def corrected(compared: Sequence[Comparison]) -> list[Comparison]:
    ps = holm([each.p for each in compared])
    return [replace(each, p_holm=p) for each, p in zip(compared, ps, strict=True)]


def spending(reports: Mapping[str, Sequence[Report]]) -> list[list[str]]:
    """What a node of each arm spends in all, and the informative groups of a round: means over the
    seeds.
    """
    rows = []
    for name, of in reports.items():
        totals = [fmean(spent(report, axis)[-1] for report in of) for axis in AXES[1:]]
        groups = [fmean(per_round(report, metric) for report in of) for metric in GROUPS]
        rows.append(
            [name, *(f"{each:,.0f}" for each in totals), *(f"{each:.2f}" for each in groups)]
        )
    return rows


def per_round(report: Report, metric: str) -> float:
    """The mean over the rounds of a figure of a node."""
    (arm,) = report["arms"].values()
    return float(fmean(arm["metrics"].get(metric, [[0.0]])[0]))


def done_on_all(runs: Mapping[str, Sequence[Run]], options: argparse.Namespace) -> list[int]:
    """Positions of the seeds on which all arms are done."""
    columns = zip(*runs.values(), strict=True)
    done = [all(each.report(options.runs) is not None for each in column) for column in columns]
    return [position for position, whole in enumerate(done) if whole]


def show(found: Mapping[str, Sequence[Comparison]], first: str) -> None:
    for axis, every in found.items():
        title = "reward over the run" if axis == "reward" else f"at equal {axis.replace('_', ' ')}"
        heads = (f"{title}, against {first}", "seeds", first, "arm", "ratio", "95 %", "p (Holm)")
        command.show(heads, [compared_line(each) for each in every])


def study_part(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Does the runs of a part, and compares them."""
    part, file = PARTS[name], command.out(options) / f"{name}.csv"
    runs = {
        arm: [run(part, arm, seed, options.quick) for seed in SEEDS[: options.seeds]]
        for arm in part.arms
        if arm in (options.arms or part.arms)
    }
    seed_by_seed = [each for column in zip(*runs.values(), strict=True) for each in column]
    if not runner.do(seed_by_seed, options):
        return {}
    runner.listed(seed_by_seed, options.runs, file)
    done = done_on_all(runs, options)
    if not done:
        return {}
    reports = {
        arm: [runner.needed(of[position], options.runs) for position in done]
        for arm, of in runs.items()
    }
    first = next(iter(reports))
    heads = ("arm", *(axis.replace("_", " ") for axis in AXES[1:]), *GROUPS.values())
    command.show(heads, spending(reports))
    found = in_pairs_of(reports, first)
    show(found, first)
    return {
        "seeds": [SEEDS[position] for position in done],
        "spending": spending(reports),
        "comparisons": {axis: [asdict(each) for each in every] for axis, every in found.items()},
    }


def study_specialists(options: argparse.Namespace) -> dict[str, Any]:
    """Does the runs of the specialists with filled places and without, and compares the two. Beside
    it those with filled places are set against the kept rows of nodes that train alone and of
    uniform 4/4, which are of an earlier commit.
    """
    file = command.out(options) / f"{SPECIALISTS}.csv"
    seeds = FRESH[: options.seeds]
    runs = [specialist(seed, options.quick, fill) for seed in seeds for fill in (0, FILLED)]
    if not runner.do(runs, options, file):
        return {}
    rows = runner.listed(runs, options.runs, file)
    kept = list(runner.kept_in(KEPT).values())
    compared: dict[str, list[Comparison]] = {}
    for figure, alone_rate in ALONE_RATES.items():
        values = runner.by_seed(rows, f"{DEFAULT} fill", figure, FRESH)
        for base, rate, among in (
            (DEFAULT, SHARING_RATE, rows),
            ("alone", alone_rate, kept),
            ("uniform", SHARING_RATE, kept),
        ):
            against = runner.by_seed(among, base, figure, FRESH, rate)
            both = sorted(values.keys() & against.keys())
            if both:
                pairs = [values[seed] for seed in both], [against[seed] for seed in both]
                compared.setdefault(figure, []).append(compare(f"against {base}", *pairs))
    for figure, every in compared.items():
        heads = (samplers.KINDS[figure], "seeds", "against", "filled", "ratio", "95 %", "p")
        command.show(heads, [compared_line(each) for each in every])
    return {figure: [asdict(each) for each in every] for figure, every in compared.items()}


def main() -> None:
    parser = command.parser("lab.studies.filling", __doc__)
    parser.add_argument("part", choices=[*PARTS, SPECIALISTS])
    runner.add_options(parser)
    parser.add_argument("--arms", nargs="*", help="these arms of the part alone (all)")
    parser.add_argument("--seeds", type=int, help="the first so many seeds alone (all)")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.seeds = options.runs / "quick", 1
    study = study_specialists if options.part == SPECIALISTS else None
    content = study(options) if study else study_part(options.part, options)
    if content:
        file = command.out(options) / f"{options.part}.json"
        file.write_text(json.dumps(content) + "\n")
    command.finish(options, content)


if __name__ == "__main__":
    main()
