"""Learning curves of a starter by precision: BF16, one FP8 flow, the mixed flow, and the mixed flow corrected.

    python -m lab.studies.fp8_learning                                  # interrupted, it goes on where it stopped
    python -m lab.studies.fp8_learning --formats E3M1 E2M1              # coarser
    python -m lab.studies.fp8_learning --report                         # tables and figure of all finished cells

One node alone, with local groups only. Reward is that of the completions it generates, so of the policy with its
weights quantised. Coarser formats show which flow fails first.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from lab.benchmarks import command, common
from lab.studies.fp8_formats import FORMATS
from protocol.messages import PeerId, Round
from swarm_node.environments.registry import build_environment
from swarm_node.extensions.fp8.kernels import Kernel, reference
from swarm_node.extensions.fp8.linear import swap_linears
from swarm_node.extensions.simulation.plot import COLOURS
from swarm_node.network.alone import Alone
from swarm_node.node.learner import build_node, build_policy
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.reports import RoundReport
from swarm_node.settings import GenerationConfig, LearningConfig, ModelConfig, RoundConfig, TrainingConfig
from swarm_node.telemetry.series import moving_average

WINDOW = 20  # rounds of the final reward
RATE = 3e-4  # that of the starters
ROUNDS = 60
PLAIN = "BF16"
FLOWS = {  # precision, objective
    PLAIN: ("bf16", "clipped"),
    "one flow": ("fp8", "clipped"),
    "mixed": ("fp8_rollout", "clipped"),
    "mixed, corrected": ("fp8_rollout", "truncated"),
}
FIRST, LAST = slice(WINDOW), slice(-WINDOW, None)
DRAWN, USUAL = ("E4M3", "E2M3", "E3M1", "E2M1"), (ROUNDS, RATE, 1)  # formats of the figure; rounds, rate and passes
UNSEEN = 1e-10  # nats per token; less is drawn as this
HEADER = ["flow", f"reward of the last {WINDOW} rounds", "divergence", "largest difference", "clipped at the end"]
Setting = tuple[str, str, int, float, int]  # format, starter, rounds, rate, passes
Runs = list[dict[str, Any]]  # one for each seed


@dataclass(frozen=True, slots=True)
class Cell:
    """One run."""

    format: str
    flow: str
    seed: int
    rounds: int
    starter: str = "rare_small"
    rate: float = RATE
    passes: int = 1  # over the text of a round

    @property
    def file(self) -> str:
        return "-".join(str(value).replace(", ", "_").replace(" ", "_") for value in asdict(self).values()) + ".json"


def configuration(cell: Cell) -> LearningConfig:
    precision, objective = FLOWS[cell.flow]
    model = ModelConfig(name=cell.starter, device="cpu", autocast="bfloat16")
    training = TrainingConfig(learning_rate=cell.rate, num_iterations=cell.passes)
    return LearningConfig(
        model=model.model_copy(update={"precision": precision}),
        generation=GenerationConfig(),
        round=RoundConfig(local_groups=9, external_groups=0),
        training=training.model_copy(update={"objective": objective}),
        seed=cell.seed,
        threads=1,
    )


def policy(cell: Cell, config: ModelConfig) -> Policy:
    made = build_policy(config.model_copy(update={"precision": "bf16"}))
    if config.precision != "bf16":
        kernel = Kernel(f"reference, {cell.format}", FORMATS[cell.format], reference)
        made.precision = swap_linears(made.model, kernel, config.precision == "fp8")
    return made


def run(cell: Cell) -> list[RoundReport]:
    config = configuration(cell)
    environment = build_environment(config)
    try:
        node = build_node(config, PeerId(f"seed {cell.seed}"), environment, Alone(), policy(cell, config.model))
        return [node.run_round(Round(number)) for number in range(cell.rounds)]
    finally:
        environment.close()


def measured(cell: Cell) -> dict[str, Any]:
    reports = run(cell)
    print(f"{cell.file}: {fmean(report.reward for report in reports[-WINDOW:]):.3f}", flush=True)
    return {
        **asdict(cell),
        "rewards": [report.reward for report in reports],
        "kl": [report.step.mismatch_kl for report in reports],
        "largest": [report.step.mismatch_max for report in reports],
        "clipped": [report.step.clip_fraction for report in reports],
        "entropy": [report.step.entropy for report in reports],
    }


def read(folder: Path) -> dict[Setting, dict[str, Runs]]:
    """Finished cells by setting and flow. BF16 has no format: it stands beside each format of its setting."""
    cells = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    plain = [cell for cell in cells if cell["flow"] == PLAIN]
    found: dict[Setting, dict[str, Runs]] = {}
    for cell in cells:
        if cell["flow"] != PLAIN:
            alike = [other for other in plain if _setting(other)[1:] == _setting(cell)[1:]]
            flows = found.setdefault(_setting(cell), {PLAIN: alike} if alike else {})
            flows.setdefault(cell["flow"], []).append(cell)
    return found


def _setting(cell: Mapping[str, Any]) -> Setting:
    return cell["format"], cell["starter"], cell["rounds"], cell["rate"], cell["passes"]


def show(found: Mapping[Setting, Mapping[str, Runs]]) -> None:
    """Reward of the last rounds for every seed, divergence in the first and in the last."""
    for (name, starter, rounds, rate, passes), flows in found.items():
        print(f"\n{name}: {starter}, {rounds} rounds, rate {rate:g}, passes {passes}")
        lines = []
        for flow in (flow for flow in FLOWS if flow in flows):
            runs = flows[flow]
            final = [fmean(run["rewards"][-WINDOW:]) for run in runs]
            early, late = (fmean(fmean(run["kl"][part]) for run in runs) for part in (FIRST, LAST))
            largest = max(max(run["largest"]) for run in runs)
            clipped = fmean(fmean(run["clipped"][LAST]) for run in runs)
            seeds = ", ".join(f"{reward:.3f}" for reward in final)
            shown = [f"{early:.1e} -> {late:.1e}", f"{largest:.1e}", f"{clipped:.1%}"]
            lines.append([flow, f"{fmean(final):.3f} ({seeds})", *shown])
        command.show(HEADER, lines)


def draw(found: Mapping[Setting, Mapping[str, Runs]], drawn: Sequence[Setting], file: Path) -> None:
    """Reward above, divergence below; a column for each setting."""
    figure = Figure(figsize=(4.2 * len(drawn), 5.6), layout="constrained")
    axes = figure.subplots(2, len(drawn), sharex=True, sharey="row", squeeze=False)
    for column, setting in enumerate(drawn):
        for colour, flow in zip(COLOURS, FLOWS, strict=False):
            runs = found[setting].get(flow, [])
            for axis, what in zip(axes[:, column], ("rewards", "kl"), strict=True):
                mean = [fmean(values) for values in zip(*(run[what] for run in runs), strict=True)]
                smooth = [max(UNSEEN, value) for value in moving_average(mean, 10)]
                axis.plot(range(1, len(mean) + 1), smooth, color=colour, label=flow, linewidth=2)
        axes[0, column].set(title=setting[0])
        axes[1, column].set(xlabel="round", yscale="log")
    axes[0, 0].set(ylabel="reward (mean of 10 rounds)", ylim=(0, None))
    axes[1, 0].set(ylabel="divergence, nats per token")
    axes[0, 0].legend(frameon=False, loc="upper left")
    figure.savefig(file, dpi=110)


def compared(setting: Setting, flows: Mapping[str, Runs]) -> dict[str, Any]:
    """Final reward of one flow over that of the mixed one, where both have run."""
    final = {flow: fmean(fmean(run["rewards"][LAST]) for run in runs) for flow, runs in flows.items() if runs}
    ours, theirs = final.get("one flow"), final.get("mixed")
    ratio = ours / theirs if ours is not None and theirs else None
    return {"ratio": ratio, "ours": ours, "theirs": theirs, "final": final, "setting": setting}


def report(found: Mapping[Setting, Mapping[str, Runs]], file: Path) -> None:
    show(found)
    drawn = [setting for name in DRAWN for setting in found if setting[0] == name and setting[2:] == USUAL]
    if drawn:
        draw(found, drawn, file)


def main() -> None:
    parser = command.parser("lab.studies.fp8_learning", __doc__)
    command.add_runs(parser)
    command.add_out(parser)
    parser.add_argument("--starter", default="rare_small")
    parser.add_argument("--formats", nargs="*", choices=list(FORMATS), default=["E4M3"])
    parser.add_argument("--flows", nargs="*", choices=list(FLOWS), default=list(FLOWS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=RATE, help="learning rate")
    parser.add_argument("--passes", type=int, default=1, help="over the text of a round")
    parser.add_argument("--report", action="store_true", help="tables and figure of the finished cells; runs none")
    options = parser.parse_args()
    if not options.report:
        common.settle()
        for cell in cells(options):
            command.kept(options.runs / cell.file, partial(measured, cell))
    found = read(options.runs)
    if options.report:
        report(found, command.out(options) / "learning.png")
    setting = (options.formats[-1], options.starter, options.rounds, options.rate, options.passes)
    command.finish(options, compared(setting, found.get(setting, {})))


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """Seed by seed, so that what is done so far can be compared."""
    for seed in range(options.seeds):
        for name in options.formats:
            for flow in options.flows:
                kind = "none" if flow == PLAIN else name
                yield Cell(kind, flow, seed, options.rounds, options.starter, options.rate, options.passes)


if __name__ == "__main__":
    main()
