"""Learning curves of a starter by precision: BF16, one FP8 flow, the mixed flow, and the mixed flow corrected.

    python -m benchmarks.fp8_learning                                  # interrupted, it goes on where it stopped
    python -m benchmarks.fp8_learning --formats E3M2 E2M1 --rate 6e-4  # coarser, and in larger steps

One node alone, all its questions its own. Reward is that of the text it writes, so of the policy with its weights
quantised. Coarser formats are for finding out which flow fails first.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks import common
from benchmarks.fp8_formats import FORMATS
from protocol.messages import PeerId, Round
from swarm_node.build import build_node, build_policy
from swarm_node.compute.policy import Policy
from swarm_node.compute.precision.kernels import Kernel, reference
from swarm_node.compute.precision.linear import swap_linears
from swarm_node.config import GenerationConfig, LearningConfig, ModelConfig, RoundConfig, TrainingConfig
from swarm_node.interfaces import RoundReport
from swarm_node.network.alone import Alone
from swarm_node.surroundings import build_environment

WINDOW = 20  # rounds of the final reward
RATE = 3e-4  # that of the starters
PLAIN = "BF16"
FLOWS = {  # precision, objective
    PLAIN: ("bf16", "clipped"),
    "one flow": ("fp8", "clipped"),
    "mixed": ("fp8_rollout", "clipped"),
    "mixed, corrected": ("fp8_rollout", "truncated"),
}


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
        made.fp8 = swap_linears(made.model, kernel, config.precision == "fp8")
    return made


def run(cell: Cell) -> list[RoundReport]:
    config = configuration(cell)
    environment = build_environment(config)
    try:
        node = build_node(config, PeerId(f"seed {cell.seed}"), environment, Alone(), policy(cell, config.model))
        return [node.learn(node.hear(node.ask(Round(number)))) for number in range(cell.rounds)]
    finally:
        environment.close()


def kept(cell: Cell, folder: Path) -> dict[str, Any]:
    """The cell's result, from the folder where it is there."""
    file = folder / cell.file
    if not file.exists():
        reports = run(cell)
        content = {
            **asdict(cell),
            "rewards": [report.reward for report in reports],
            "kl": [report.step.mismatch_kl for report in reports],
            "largest": [report.step.mismatch_max for report in reports],
            "clipped": [report.step.clip_fraction for report in reports],
            "entropy": [report.step.entropy for report in reports],
        }
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(content) + "\n")
        partial.rename(file)
        print(f"{cell.file}: {fmean(content['rewards'][-WINDOW:]):.3f}", flush=True)
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def main() -> None:
    parser = common.parser("fp8_learning", (__doc__ or "").splitlines()[0])
    parser.add_argument("--starter", default="rare_small")
    parser.add_argument("--formats", nargs="*", choices=list(FORMATS), default=["E4M3"])
    parser.add_argument("--flows", nargs="*", choices=list(FLOWS), default=list(FLOWS))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=RATE, help="learning rate")
    parser.add_argument("--passes", type=int, default=1, help="over the text of a round")
    parser.add_argument("--runs", type=Path, default=Path("runs/fp8"), help="where finished cells are kept")
    options = parser.parse_args()
    common.settle()
    options.runs.mkdir(parents=True, exist_ok=True)
    for seed in range(options.seeds):  # seed by seed, so that what is done so far can be compared
        for name in options.formats:
            for flow in options.flows:
                plain = "none" if flow == PLAIN else name
                cell = Cell(plain, flow, seed, options.rounds, options.starter, options.rate, options.passes)
                kept(cell, options.runs)


if __name__ == "__main__":
    main()
