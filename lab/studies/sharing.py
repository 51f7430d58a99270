"""The effect of sharing, by starter and arm: the study behind docs/results/sharing.md.

    python -m lab.studies.sharing                    # hours on 2 cores; interrupted, it goes on where it stopped
    python -m lab.studies.sharing --starters rare    # a part
    python -m lab.studies.sharing --report --out docs/results/sharing    # tables and figure of what lies there

For each starter and arm: a sweep of learning rates on a seed of its own, which widens itself until the best rate is
between two worse ones. Then every arm runs at its best rate, on other seeds. Two ablations show where the gain comes
from.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from lab.benchmarks import command
from lab.studies.rates import sweep
from lab.studies.simulated import simulated
from swarm_node.common.children import usable_cores
from swarm_node.extensions.simulation.plot import COLOURS
from swarm_node.extensions.simulation.settings import SimulationConfig
from swarm_node.extensions.simulation.statistics import ci95
from swarm_node.settings import RoundConfig
from swarm_node.telemetry.series import moving_average

ARMS = ("8/0", "6/2", "4/4", "2/6")
SWEEP_SEED = 1000  # far from the seeds 0, 1, ... that are reported
ALONE = "8/0"
ORDER = ("dense", "rare", "very_rare", "rarest")  # from dense to rare reward


@dataclass(frozen=True)
class Variant:
    """An arm, and what else is different about it."""

    name: str
    arm: str
    round: tuple[tuple[str, Any], ...] = ()  # options of the round


MAIN = tuple(Variant(arm, arm) for arm in ARMS)
ABLATIONS = (
    # Training alone, but generating three times as many groups and training on the informative ones only.
    Variant("8/0 wrote 3x, kept informative", "8/0", (("questions", 27), ("sampler", "informative"))),
    # Sharing, with no more informative groups than eight local ones would have held.
    Variant("4/4 with as many informative as 8/0", "4/4", (("sampler", "lab.studies.matched:MatchedSampler"),)),
)


@dataclass(frozen=True)
class Size:
    rounds: int
    sweep_rounds: int
    seeds: int
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Result:
    """One variant at its best rate. Rewards are per nine questions, whatever the variant has."""

    variant: str
    learning_rate: float
    sweep: Mapping[str, float]  # rate -> cumulative reward on the sweep's seed
    cumulative_reward: tuple[float, ...]  # per seed
    mean: float
    ci95: float | None
    gain: float | None  # over 8/0
    rewards: tuple[tuple[float, ...], ...]  # per seed, per round
    generated_tokens: int
    trained_tokens: int
    edge: str = ""  # whether the best rate is the lowest or the highest that was tried


def main() -> None:
    parser = command.parser("lab.studies.sharing", __doc__)
    command.add_runs(parser)
    command.add_out(parser)
    parser.add_argument("--starters", nargs="*", default=list(ORDER))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument(
        "--sweep-rounds", type=int, help="default: as many as --rounds; a short sweep prefers rates that fail later"
    )
    parser.add_argument("--rates", type=float, nargs="*", default=[1.5e-4, 3e-4, 6e-4])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ablations", action="store_true", help="also the two ablations")
    parser.add_argument("--report", action="store_true", help="run nothing: tables and figure of what is in --out")
    options = parser.parse_args()
    out, contents = command.out(options), []
    if options.report:
        found = [json.loads(file.read_text()) for name in ORDER if (file := out / f"{name}.json").exists()]
        for each in found:
            show(each["starter"], [Result(**fields) for fields in each["results"]])
        draw(out)
        command.finish(options, {"studies": found})
        return
    for starter in options.starters:
        variants = MAIN + (ABLATIONS if options.ablations else ())
        size = Size(options.rounds, options.sweep_rounds or options.rounds, options.seeds, tuple(options.rates))
        results = study(starter, variants, size, options.runs / starter)
        content = {"starter": starter, "rounds": options.rounds, "results": [asdict(result) for result in results]}
        (out / f"{starter}.json").write_text(json.dumps(content) + "\n")
        show(starter, results)
        contents.append(content)
    draw(out)
    command.finish(options, {"studies": contents})


def study(starter: str, variants: Sequence[Variant], size: Size, folder: Path) -> list[Result]:
    """Simulations run side by side, one a core, each with one worker."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        plain = [variant for variant in variants if not variant.round and len(size.rates) > 1]  # one rate: no sweep

        def measure(variant: Variant, rate: float) -> float:
            return fmean(totals(run(starter, variant, rate, size.sweep_rounds, SWEEP_SEED, 1, folder)))

        sweeps = dict(zip(plain, pool.map(lambda v: sweep(size.rates, partial(measure, v)), plain), strict=True))
        by_arm = {variant.arm: found for variant, found in sweeps.items()}  # an ablation takes its arm's rate
        best = {v: by_arm[v.arm].best if v.arm in by_arm else size.rates[0] for v in variants}
        finals = list(pool.map(lambda v: run(starter, v, best[v], size.rounds, 0, size.seeds, folder), variants))
    base = next((fmean(totals(final)) for v, final in zip(variants, finals, strict=True) if v.name == ALONE), 0.0)
    return [
        Result(
            variant=variant.name,
            learning_rate=best[variant],
            sweep={f"{rate:g}": value for rate, value in sweeps[variant].values.items()} if variant in sweeps else {},
            edge=sweeps[variant].edge if variant in sweeps else "",
            cumulative_reward=totals(final),
            mean=fmean(totals(final)),
            ci95=ci95(totals(final)),
            gain=fmean(totals(final)) / base if base else None,
            rewards=tuple(tuple(scale(final) * reward for reward in curve) for curve in final["arm"]["rewards"]),
            generated_tokens=final["arm"]["generated_tokens"],
            trained_tokens=final["arm"]["trained_tokens"],
        )
        for variant, final in zip(variants, finals, strict=True)
    ]


def run(
    starter: str, variant: Variant, rate: float, rounds: int, seed: int, seeds: int, folder: Path
) -> dict[str, Any]:
    """The report of one simulation, run now, or read if it was run before."""
    name = f"{variant.name.split(',')[0].replace('/', '-').replace(' ', '_')}-{rate:g}-{seed}"
    out = folder / name
    if not (out / "report.json").exists():
        config = SimulationConfig(
            arms=(variant.arm,),
            rounds=rounds,
            seed=seed,
            seeds=seeds,
            out=out,
            workers=1,
        )
        config = config.model_copy(
            update={
                "model": config.model.model_copy(update={"name": starter}),
                "training": config.training.model_copy(update={"learning_rate": rate}),
                "round": RoundConfig(**dict(variant.round)),
            }
        )
        simulated(config)
        print(f"{starter} {name} done", flush=True)
    report = json.loads((out / "report.json").read_text())
    return {"questions": report["questions"], "arm": report["arms"][variant.arm]}


def scale(report: Mapping[str, Any]) -> float:
    """Variants with more questions are counted per nine, like the others."""
    return 9 / float(report["questions"])


def totals(report: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(scale(report) * value for value in report["arm"]["cumulative_reward"])


def show(starter: str, results: Sequence[Result]) -> None:
    lines = []
    base = next((result.trained_tokens for result in results if result.variant == ALONE), 0)
    for result in results:
        half = "" if result.ci95 is None else f" ± {result.ci95:.0f}"
        seeds = ", ".join(f"{value:.0f}" for value in result.cumulative_reward)
        gain = "-" if result.gain is None else f"{result.gain:.2f}x"
        rate = f"{result.learning_rate:g}{f' ({result.edge} tried)' if result.edge else ''}"
        tokens = f"{result.trained_tokens / base:.2f}x" if base else "-"
        lines.append([result.variant, rate, f"{result.mean:.0f}{half}", seeds, gain, tokens])
    print(f"\n### {starter}")
    command.show(
        ["local / external", "best rate", "cumulative reward, 95 %", "per seed", "gain over alone", "trained tokens"],
        lines,
    )


def draw(folder: Path) -> None:
    """sharing.png: a panel for each starter whose results lie in the folder, from dense to rare reward."""
    studies = [json.loads(path.read_text()) for name in ORDER if (path := folder / f"{name}.json").exists()]
    figure = Figure(figsize=(4.4 * len(studies), 4.2), dpi=110)
    panels = figure.subplots(1, len(studies), squeeze=False)[0]
    for axes, study_ in zip(panels, studies, strict=True):
        arms = [result for result in study_["results"] if result["variant"] in ARMS]
        for result, colour in zip(arms, COLOURS, strict=False):
            curves = [moving_average([reward / 9 for reward in curve], 10) for curve in result["rewards"]]
            middle = [fmean(values) for values in zip(*curves, strict=True)]
            half = "" if result["ci95"] is None else f" ± {result['ci95']:.0f}"
            gain = "" if result["gain"] is None or result["variant"] == ALONE else f"  {result['gain']:.2f}x"
            label = (
                f"{result['variant']}{' alone' if result['variant'] == ALONE else ''}: {result['mean']:.0f}{half}{gain}"
            )
            axes.plot(range(1, len(middle) + 1), middle, color=colour, linewidth=2, label=label)
            low, high = zip(*[(min(values), max(values)) for values in zip(*curves, strict=True)], strict=True)
            axes.fill_between(range(1, len(middle) + 1), low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set_title(f"starter {study_['starter']}", loc="left", fontsize=11, fontweight="bold")
        axes.set_xlabel("round")
        axes.set_ylim(0, 0.9)  # room for the legend above the curves
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.legend(fontsize=8, title="local / external groups: cumulative reward", title_fontsize=8, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    panels[0].set_ylabel("right completions (mean of 10 rounds)")
    figure.tight_layout()
    figure.savefig(folder / "sharing.png")


if __name__ == "__main__":
    main()
