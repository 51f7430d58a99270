"""Learning curves of a starter by precision: BF16, one FP8 flow, the mixed flow, and the mixed flow corrected.

One node alone, all its questions its own. `coarse` repeats the FP8 flows with two bits after the point (E5M2) and one
scale for a whole matrix or row: where the mixed flow should fail before the unified one does.
"""

import argparse
from statistics import fmean
from typing import Any

import torch

from benchmarks import common
from protocol.messages import PeerId, Round
from swarm_node.build import build_node, build_policy
from swarm_node.compute.precision.kernels import Kernel, reference
from swarm_node.compute.precision.linear import swap_linears
from swarm_node.compute.precision.quantise import Recipe
from swarm_node.config import GenerationConfig, LearningConfig, ModelConfig, RoundConfig, TrainingConfig
from swarm_node.network.alone import Alone
from swarm_node.surroundings import build_environment

WINDOW = 20  # rounds of the final reward
COARSE = Kernel("reference, E5M2, a scale per row or matrix", Recipe(torch.float8_e5m2, 0, 4096), reference)
FLOWS = {  # precision, objective
    "BF16": ("bf16", "clipped"),
    "FP8, one flow": ("fp8", "clipped"),
    "FP8 written, BF16 trained": ("fp8_rollout", "clipped"),
    "the same, truncated importance sampling": ("fp8_rollout", "truncated"),
}


def configuration(starter: str, precision: str, objective: str, seed: int) -> LearningConfig:
    model = ModelConfig(name=starter, device="cpu", autocast="bfloat16")
    return LearningConfig(
        model=model.model_copy(update={"precision": precision}),
        generation=GenerationConfig(),
        round=RoundConfig(local_groups=9, external_groups=0),
        training=TrainingConfig().model_copy(update={"objective": objective}),
        seed=seed,
        threads=1,
    )


def curve(config: LearningConfig, rounds: int, coarse: bool) -> tuple[list[float], list[float]]:
    """Reward and K3 divergence of every round."""
    policy = build_policy(config.model)
    if coarse and policy.fp8 is not None:
        policy = build_policy(config.model.model_copy(update={"precision": "bf16"}))
        policy.fp8 = swap_linears(policy.model, COARSE, config.model.precision == "fp8")
    environment = build_environment(config)
    try:
        node = build_node(config, PeerId(f"seed {config.seed}"), environment, Alone(), policy)
        reports = [node.learn(node.hear(node.ask(Round(number)))) for number in range(rounds)]
    finally:
        environment.close()
    return [report.reward for report in reports], [report.step.mismatch_kl for report in reports]


def measure(starter: str, rounds: int, seeds: int, coarse: bool) -> dict[str, Any]:
    results = {}
    for name, (precision, objective) in FLOWS.items():
        if coarse and precision == "bf16":
            continue
        curves = [curve(configuration(starter, precision, objective, seed), rounds, coarse) for seed in range(seeds)]
        final = [fmean(rewards[-WINDOW:]) for rewards, _ in curves]
        early, late = (fmean(fmean(kl[part]) for _, kl in curves) for part in (slice(WINDOW), slice(-WINDOW, None)))
        results[name] = {"final": final, "first_kl": early, "last_kl": late, "rewards": [r for r, _ in curves]}
        print(
            f"{name}: {fmean(final):.3f} {[round(value, 3) for value in final]}, KL {early:.1e} -> {late:.1e}",
            flush=True,
        )
    return results


def main() -> None:
    parser: argparse.ArgumentParser = common.parser("fp8_learning", (__doc__ or "").splitlines()[0])
    parser.add_argument("--starter", default="rare_small")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--coarse", action="store_true", help="quantise more coarsely")
    arguments = parser.parse_args()
    common.settle()
    results = measure(arguments.starter, arguments.rounds, arguments.seeds, arguments.coarse)
    unified, mixed = (fmean(results[name]["final"]) for name in list(FLOWS)[1:3])
    result = {
        "benchmark": "fp8_learning",
        "ratio": unified / mixed if mixed else None,
        "ours": unified,
        "theirs": mixed,
        "flows": results,
        "settings": {"starter": arguments.starter, "rounds": arguments.rounds, "coarse": arguments.coarse},
    }
    common.finish(result, arguments.json)


if __name__ == "__main__":
    main()
