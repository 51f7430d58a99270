"""Does sharing cost a node its own tasks? Compares ways to train on external groups with training
alone.

    python -m lab.studies.samplers --cost           # what it would cost
    # continues where it stopped, by the rows of its CSV file
    python -m lab.studies.samplers --at-most 40
    # the best one, with 25 % hostile nodes, against uniform
    python -m lab.studies.samplers --hostile
    python -m lab.studies.samplers --quick          # tiny, to see that it runs
    # a real model, no selection
    python -m lab.studies.samplers --setting smollm2-135m --confirm "defended 8/4"

The swarm is that of `lab.studies.equal_price`: each node is a specialist, which practises some of
the tasks and is examined in all of them. The learning rates are chosen on two seeds. A specialist
that trains alone gets two: the best one for its own tasks, and the best one for those of the
others. A candidate, which is a way to share, gets one rate for both.

Eight other seeds select at most two candidates, and nothing is claimed from them. The selected ones
run again on fresh seeds, and only there they are tested: exactly, in pairs, corrected by Holm's
rule.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from lab.benchmarks import command
from lab.studies import objectives, runner
from lab.studies.equal_price import SETTINGS
from lab.studies.rates import sweep
from lab.studies.runner import Run
from lab.studies.statistics import Comparison, compared_line, family
from swarm_node.settings import DefenceConfig
from swarm_node.settings.simulation import AttackConfig

ALONE, LONGER, BASE = "alone", "alone, a third longer", "uniform"
BRACKET, SEEDS = range(5200, 5202), range(5000, 5008)  # fixed before the first run
FRESH = {"rare": range(5100, 5116), "smollm2-135m": range(5100, 5108)}
# A sweep adds rates beyond these
RATES = {"rare": (1.5e-4, 3e-4), "smollm2-135m": (2.5e-4, 5e-4, 1e-3)}
CONFIRMED = 2  # candidates at most
# Of own and of others' tasks, as ratios to training alone
WANTED = {"final_local": 0.98, "final_other": 1.7}
KINDS = {"final_local": "own tasks", "final_other": "others' tasks"}
QUESTIONS = 24  # held-out questions of each task, asked once, at the end
DEFENDED: Mapping[str, Any] = {"defence": dict(DefenceConfig())}


@dataclass(frozen=True)
class Candidate:
    """An arm, and the options in which it differs from uniform 4/4."""

    arm: str = "4/4"
    options: Mapping[str, Any] = field(default_factory=dict)
    longer: float = 1.0  # rounds, as a multiple of the others'


def sampler(name: str, arm: str = "4/4", **options: Any) -> Candidate:
    return Candidate(arm, {"round": {"sampler": name}, **options})


def objective(name: str, arm: str = "4/4") -> Candidate:
    return Candidate(arm, {"training": {"objective": objectives.named(name)}})


CANDIDATES: Mapping[str, Candidate] = {
    ALONE: Candidate("8/0"),
    # Generates as much as "defended 8/4", which answers peers' questions, too
    LONGER: Candidate("8/0", longer=4 / 3),
    BASE: Candidate(),
    "8/2": Candidate("8/2"),
    "8/4": Candidate("8/4"),
    "8/8": Candidate("8/8"),
    "adaptive": sampler("adaptive"),
    "without negatives": objective("without_negatives"),
    "without negatives 8/4": objective("without_negatives", "8/4"),
    "shaped": objective("shaped"),
    # Answers peers' questions itself, and adds peers' right answers where its own fail (Mutual RL,
    # arXiv 2605.07244)
    "success-gated": Candidate(options={"defence": {"layers": ("rescue",)}}),
    "defended": Candidate(options=DEFENDED),
    "defended 6/3": Candidate("6/3", DEFENDED),
    "defended 8/4": Candidate("8/4", DEFENDED),  # the default of `run` since it was confirmed
    "defended adaptive": sampler("adaptive", **DEFENDED),
}


def run(options: argparse.Namespace, name: str, seed: int, rate: float) -> Run:
    made, setting = CANDIDATES[name], SETTINGS[options.setting]
    rounds = round(setting.rounds * made.longer)
    settings = {
        "nodes": setting.nodes,
        "node_tasks": setting.tasks,
        "rounds": rounds,
        **setting.options,
    }
    settings |= {"evaluate_every": rounds, "evaluate_questions": QUESTIONS, "evaluate_samples": 2}
    if options.quick:
        settings |= {
            "rounds": 2,
            "evaluate_every": 2,
            "evaluate_questions": 1,
            "evaluate_samples": 1,
        }
    for section, differing in made.options.items():
        settings[section] = {**settings.get(section, {}), **differing}
    if options.hostile:
        settings |= {"attack": AttackConfig(kind="stealth", share=0.25), "defence": DefenceConfig()}
    return runner.make(
        told(name, options), sized(made.arm, options.setting), seed, rate, **settings
    )


def sized(arm: str, setting: str) -> str:
    """The arm with as many groups as this swarm has: 8/4 becomes 2/1 where a node asks two
    questions a round.
    """
    local, external = map(int, arm.split("/"))
    asked = SETTINGS[setting].options.get("round", {}).get("questions", 8)
    return f"{local * asked // 8}/{external * asked // 8}"


def told(name: str, options: argparse.Namespace) -> str:
    return f"{name}, hostile" if options.hostile else name


class Study:
    """The runs of all stages, with their rows in one file."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        stem = "never_hurts" if options.setting == "rare" else f"never_hurts_{options.setting}"
        self.honest = command.out(options) / f"{stem}.csv"
        self.file = self.honest.with_stem(f"{stem}_hostile") if options.hostile else self.honest
        self.runs: list[Run] = []
        self.rows: Sequence[Mapping[str, Any]] = []

    def ask(self, runs: Sequence[Run]) -> bool:
        """Does those of the runs that are missing. Returns whether all are done."""
        self.runs += [each for each in runs if each not in self.runs]
        runner.do(runs, self.options, self.file)
        if not self.options.cost:
            self.rows = runner.listed(self.runs, self.options.runs, self.file)
        done = {(each["name"], each["rate"], each["seed"]) for each in self.rows}
        return all(each.key in done for each in runs)

    def mean(self, name: str, rate: float, figure: str) -> float:
        """The mean of a figure over the seeds of the bracket. Raises NotDone if one is missing."""
        if not self.ask([run(self.options, name, seed, rate) for seed in BRACKET]):
            raise runner.NotDone(name)
        return fmean(
            runner.by_seed(self.rows, told(name, self.options), figure, BRACKET, rate).values()
        )

    def rates(self, names: Sequence[str]) -> dict[tuple[str, str], float]:
        """The best rates by candidate and figure: training alone has one for each figure, a
        candidate one for both.
        """
        found, base, given = (
            dict[tuple[str, str], float](),
            dict[str, float](),
            RATES[self.options.setting],
        )
        self.ask(
            [
                run(self.options, name, seed, rate)
                for rate in given
                for name in [ALONE, *names]
                for seed in BRACKET
            ]
        )
        with suppress(runner.NotDone):
            for figure in WANTED:
                swept = sweep(given, partial(self.mean, ALONE, figure=figure))
                found[ALONE, figure], base[figure] = swept.best, swept.values[swept.best]
        for name in names if len(base) == len(WANTED) else ():
            with suppress(runner.NotDone):
                best = sweep(given, partial(self.nearest, name, base)).best
                found |= {(name, figure): best for figure in WANTED}
        return found

    def nearest(self, name: str, base: Mapping[str, float], rate: float) -> float:
        """The share of the wanted ratios that a candidate reaches: the smaller one of own and
        others' tasks.
        """
        return min(
            self.mean(name, rate, figure) / base[figure] / wanted
            for figure, wanted in WANTED.items()
        )

    def compared(
        self,
        names: Sequence[str],
        seeds: range,
        rates: Mapping[tuple[str, str], float],
        base: str = ALONE,
    ) -> dict[str, list[Comparison]]:
        """For each figure, every candidate against `base`, on the seeds on which all of them are
        done.
        """
        pairs = {(name, rates[name, figure]) for name in [base, *names] for figure in WANTED}
        self.ask(
            [run(self.options, name, seed, rate) for seed in seeds for name, rate in sorted(pairs)]
        )
        found = {}
        for figure in WANTED:
            values = {
                name: runner.by_seed(
                    self.rows, told(name, self.options), figure, seeds, rates[name, figure]
                )
                for name in [base, *names]
            }
            common = sorted(set.intersection(*(set(of) for of in values.values())))
            if common:
                lists = {name: [of[seed] for seed in common] for name, of in values.items()}
                found[figure] = family(
                    {name: of for name, of in lists.items() if name != base}, lists[base]
                )
        return found

    def under_attack(self) -> dict[str, list[Comparison]]:
        """The best candidate against uniform, at the rates that were found without attackers."""
        kept = json.loads(self.honest.with_suffix(".json").read_text())
        rates = {(name, figure): rate for name, figure, rate in kept["rates"]}
        return self.compared(kept["chosen"][:1], FRESH[self.options.setting], rates, BASE)


def picked(selected: Mapping[str, Sequence[Comparison]]) -> list[str]:
    """The candidates to confirm: those nearest to the wanted ratios in the figure in which each
    falls further short.
    """
    ratios: dict[str, list[float]] = {}
    for figure, wanted in WANTED.items():
        for each in selected.get(figure, ()):
            ratios.setdefault(each.name, []).append((each.ratio or 0.0) / wanted)
    return sorted((name for name in ratios if name != BASE), key=lambda name: -min(ratios[name]))[
        :CONFIRMED
    ]


def show(title: str, found: Mapping[str, Sequence[Comparison]]) -> None:
    print(f"\n### {title}" if found else "")
    for figure, every in found.items():
        heads = (KINDS[figure], "seeds", "against", "mean", "ratio", "95 %", "p (Holm)")
        command.show(heads, [compared_line(each) for each in every])


def draw(
    selected: Mapping[str, Sequence[Comparison]],
    confirmed: Mapping[str, Sequence[Comparison]],
    path: Path,
) -> None:
    """Ratios to training alone with their intervals, a row for each candidate, the best one on
    top.
    """
    names = [
        each.name for each in sorted(selected["final_local"], key=lambda each: each.ratio or 0.0)
    ]
    figure = Figure(figsize=(9.6, 0.8 + 0.32 * len(names)), dpi=110)
    for axes, (kind, wanted) in zip(
        figure.subplots(1, 2, sharey=True), WANTED.items(), strict=True
    ):
        axes.axvline(wanted, color="0.5", linestyle="--", linewidth=1)
        for found, colour, lift, label in (
            (selected, "0.6", -0.12, "selection"),
            (confirmed, "C0", 0.12, "fresh seeds"),
        ):
            for each in found.get(kind, ()):
                at, (low, high) = (
                    names.index(each.name) + lift,
                    each.ratio_interval or (each.ratio, each.ratio),
                )
                axes.plot((low, high), (at, at), color=colour)
                axes.plot(
                    each.ratio,
                    at,
                    "o",
                    color=colour,
                    label=label if each is found[kind][0] else None,
                )
        axes.set(
            title=f"{KINDS[kind]}, against training alone",
            yticks=range(len(names)),
            yticklabels=names,
        )
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(path)


def plain(found: Mapping[str, Sequence[Comparison]]) -> dict[str, list[dict[str, Any]]]:
    return {figure: [asdict(each) for each in every] for figure, every in found.items()}


def main() -> None:
    parser = command.parser("lab.studies.samplers", __doc__)
    runner.add_options(parser)
    parser.add_argument("--candidates", nargs="*", choices=CANDIDATES, default=list(CANDIDATES))
    parser.add_argument(
        "--confirm",
        nargs="*",
        choices=CANDIDATES,
        default=[],
        help="these alone: selected elsewhere",
    )
    parser.add_argument("--setting", choices=FRESH, default="rare", help="the swarm (rare)")
    parser.add_argument(
        "--hostile", action="store_true", help="a quarter of the nodes, under the default defence"
    )
    options = parser.parse_args()
    wanted = options.confirm or [BASE, *options.candidates]
    names = [name for name in dict.fromkeys(wanted) if name not in (ALONE, LONGER)]
    names = [
        name for name in names if not sized(CANDIDATES[name].arm, options.setting).endswith("/0")
    ]
    study = Study(options)
    if options.hostile:
        if not study.honest.with_suffix(".json").exists():
            parser.error(
                f"run it without --hostile first: that writes {study.honest.with_suffix('.json')}"
            )
        attacked = study.under_attack()
        show("against uniform, with a quarter hostile", attacked)
        study.file.with_suffix(".json").write_text(json.dumps(plain(attacked)) + "\n")
        command.finish(options, plain(attacked))
        return
    rates = study.rates(names)
    names = [name for name in names if (name, "final_local") in rates]
    selected = study.compared(names, SEEDS, rates) if names and not options.confirm else {}
    show("selection: nothing is claimed from it", selected)
    beside = (
        study.compared([name for name in names if name != BASE], SEEDS, rates, BASE)
        if selected
        else {}
    )
    show("the same against uniform", beside)
    best = names if options.confirm else picked(selected)
    confirmed, longer = dict[str, list[Comparison]](), dict[str, list[Comparison]]()
    if best and all(each.seeds == len(SEEDS) for every in selected.values() for each in every):
        confirmed = study.compared(
            best if options.confirm else [BASE, *best], FRESH[options.setting], rates
        )
        show(f"confirmation of {', '.join(best)} on fresh seeds, against training alone", confirmed)
        rates |= {(LONGER, figure): rates[ALONE, figure] for figure in WANTED}
        longer = study.compared(best, FRESH[options.setting], rates, LONGER)
        show("the same against training alone for a third longer", longer)
    found = [[*key, rate] for key, rate in rates.items()]
    content = {
        "rates": found,
        "chosen": best,
        "selection": plain(selected),
        "confirmation": plain(confirmed),
    }
    content |= {"longer": plain(longer), "against uniform": plain(beside)}
    if selected:
        draw(selected, confirmed, study.file.with_suffix(".png"))
    study.file.with_suffix(".json").write_text(json.dumps(content) + "\n")
    command.finish(options, content)


if __name__ == "__main__":
    main()
