"""SAPO's four arms (arXiv 2509.08721) with Qwen2.5-0.5B, eight nodes on one GPU, in one command.

    python -m lab.studies.sapo_on_a_card                         # on a card of 24 GB
    # to its end here: two nodes, a starter
    python -m lab.studies.sapo_on_a_card --trial --model rare

NOT RUN ON A GPU YET: no figure of it is in the docs. It estimates its hours from its own first
rounds, keeps its results under runs/, arm by arm, and continues there when it is started again.

Each node has weights of its own in bfloat16, rounded stochastically, and AdamW in 8 bits: two bytes
a parameter each, so eight nodes take 16 GB. As in the paper: nine tasks, eight completions, 4 of 8
groups from peers in the best arm.
"""

import argparse
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from lab.benchmarks import command
from lab.studies.simulated import simulated
from swarm_node.policy.plan import has_8bit
from swarm_node.settings import (
    EnvironmentConfig,
    GenerationConfig,
    ModelConfig,
    RoundConfig,
    TrainingConfig,
)
from swarm_node.settings.simulation import SimulationConfig

ARMS = ("8/0", "6/2", "4/4", "2/6")
PUBLISHED = {"8/0": 561.79, "6/2": 854.43, "4/4": 1093.31, "2/6": 945.87}  # cumulative reward
TASKS = (
    *(
        "arc_1d/paper",
        "basic_arithmetic/paper",
        "base_conversion/paper",
        "bf/paper",
        "binary_matrix/paper",
    ),
    *("calendar_arithmetic/paper", "decimal_arithmetic/paper", "fraction_simplification/paper"),
    "propositional_logic/paper",
)
FIRST = 3  # rounds from which the hours are estimated


def config(options: argparse.Namespace, arm: str, rounds: int, out: Path) -> SimulationConfig:
    """The simulation of one arm."""
    trial = options.trial
    return SimulationConfig(
        nodes=2 if trial else 8,
        arms=(arm,),
        rounds=rounds,
        out=out,
        workers=1,
        threads=1 if trial else 0,
        model=ModelConfig(name=options.model, dtype="bfloat16", device="cpu" if trial else "auto"),
        generation=GenerationConfig(
            num_generations=2 if trial else 8, max_completion_length=4 if trial else 256
        ),
        round=RoundConfig(questions=2 if trial else 9),
        training=TrainingConfig(
            learning_rate=1e-5, optimizer="adamw_8bit" if has_8bit() else "adamw"
        ),
        environment=EnvironmentConfig(
            tasks=TASKS[1:3] if trial else TASKS, scoring="graded", answer="tags"
        ),
    )


def expected_hours(options: argparse.Namespace) -> float:
    """Hours of all arms, estimated from the first rounds of one, without the start of the
    process.
    """
    first, more = options.runs / "first", options.runs / "more"
    seconds = []
    for rounds, out in ((1, first), (1 + FIRST, more)):
        began = monotonic()
        simulated(config(options, "4/4", rounds, out))
        seconds.append(monotonic() - began)
    each = max(0.0, seconds[1] - seconds[0]) / FIRST
    return each * float(options.rounds) * len(ARMS) / 3600


def main() -> None:
    parser = command.parser("lab.studies.sapo_on_a_card", __doc__)
    command.add_runs(parser)
    command.add_out(parser)
    parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B-Instruct")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument(
        "--trial", action="store_true", help="to its end on a CPU; its figures mean nothing"
    )
    options = parser.parse_args()
    if not options.trial and not torch.cuda.is_available():
        parser.error("this needs a CUDA device; --trial runs it to its end without one")
    expected = command.kept(
        options.runs / "expected.json", lambda: {"hours": expected_hours(options)}
    )
    print(
        (
            f"{options.rounds} rounds of {len(ARMS)} arms: about {expected['hours']:.1f} hours on "
            "this machine"
        ),
        flush=True,
    )
    rewards: dict[str, float] = {}
    for arm in ARMS:
        report: dict[str, Any] = simulated(
            config(options, arm, options.rounds, options.runs / arm.replace("/", "-"))
        )
        rewards[arm] = float(report["arms"][arm]["mean"])
        print(f"{arm}: cumulative reward {rewards[arm]:.2f}", flush=True)
    lines = [[arm, f"{rewards[arm]:.2f}", f"{PUBLISHED[arm]:.2f}"] for arm in ARMS]
    command.show(["local/external", "cumulative reward", "published"], lines)
    command.finish(options, {"rewards": rewards, "hours": expected["hours"]})


if __name__ == "__main__":
    main()
