"""Seconds of a round of a swarm of starters on this machine, and of each of its phases.

All nodes are in one process, connected in memory through encode, sign and admit: the simulation's
own machinery. The learning rate is so small that the policy stays the same.
"""

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import psutil

from lab.benchmarks import command, common
from swarm_node.settings import GenerationConfig, ModelConfig, RoundConfig, TrainingConfig
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import Arm, Cell, cell_config
from swarm_node.simulation.cell import run_cell
from swarm_node.simulation.engines.population import LivePopulation

QUESTIONS, EXTERNAL_GROUPS, NEW_TOKENS = 9, 4, 16
CELL = Cell(Arm(QUESTIONS, EXTERNAL_GROUPS), seed=0)
PHASES = ("generate", "score", "exchange", "train")  # exchange: publish and collect
RATE = 1e-9  # so small that policy, lengths and rewards stay the same


def cpu_seconds() -> float:
    """CPU seconds of this process and its descendants. The scoring process is a process of its own;
    its children that have ended count, too.
    """
    me = psutil.Process()
    mine, theirs = me.cpu_times(), [process.cpu_times() for process in me.children(recursive=True)]
    return float(
        mine.user
        + mine.system
        + sum(t.user + t.system + t.children_user + t.children_system for t in theirs)
    )


def configured(model: str, nodes: int, rounds: int) -> SimulationConfig:
    config = SimulationConfig(
        model=ModelConfig(name=model),
        generation=GenerationConfig(
            num_generations=common.GROUP_SIZE, max_completion_length=NEW_TOKENS
        ),
        round=RoundConfig(questions=QUESTIONS),
        training=TrainingConfig(learning_rate=RATE),
        nodes=nodes,
        rounds=rounds,
    )
    return cell_config(config, CELL)


def phases(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of a round of ours, by `PHASES`."""
    exchange = seconds["publish"] + seconds["collect"]
    return {phase: exchange if phase == "exchange" else seconds[phase] for phase in PHASES}


def our_rounds(model: str, nodes: int, rounds: int) -> list[dict[str, Any]]:
    """Every measured round of our swarm; one more round goes first, to warm up."""
    config = configured(model, nodes, rounds + 1)
    population = LivePopulation(config)
    measured = []
    try:
        before = cpu_seconds()
        for done in run_cell(config, CELL, population):
            now = cpu_seconds()
            measured.append(
                {
                    "round": done.seconds["round"],
                    "cpu": now - before,
                    "seconds": phases(done.seconds),
                    "tokens": int(done.metrics["generated_tokens"]),
                    "received": done.metrics["external_informative"],
                }
            )
            before = now
    finally:
        population.close()
    return measured[1:]


def summed_up(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Medians over rounds, with the range of the whole round; means of tokens and of external
    groups.
    """
    totals = [entry["round"] for entry in rounds]
    phases = {phase: median(entry["seconds"][phase] for entry in rounds) for phase in PHASES}
    return {
        "seconds_per_round": {"median": median(totals), "min": min(totals), "max": max(totals)},
        "phases": phases,
        "cpu_seconds_per_round": median(entry["cpu"] for entry in rounds),
        "generated_tokens_per_round": fmean(entry["tokens"] for entry in rounds),
        "external_groups_per_node": fmean(entry["received"] for entry in rounds),
        "rounds": len(rounds),
    }


def parsed() -> argparse.Namespace:
    parser = common.parser("lab.benchmarks.swarm", __doc__)
    parser.add_argument("--nodes", type=int, help="nodes of the swarm (8)")
    parser.add_argument("--model", default="rare", help="starter, or a folder with a chat template")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    # So that `finally` ends the nodes then, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    common.settle()
    nodes = arguments.nodes or (2 if arguments.quick else 8)
    rounds = arguments.repetitions or (1 if arguments.quick else 5)
    ours = summed_up(our_rounds(arguments.model, nodes, rounds))
    numbers = [
        ours["seconds_per_round"]["median"],
        *ours["phases"].values(),
        ours["cpu_seconds_per_round"],
    ]
    counts = [
        f"{ours['generated_tokens_per_round']:.0f}",
        f"{ours['external_groups_per_node']:.1f}",
    ]
    header = ["seconds a round", *PHASES, "CPU s", "tokens", "received"]
    command.show(header, [[*(f"{number:.2f}" for number in numbers), *counts]])
    settings = {"nodes": nodes, "model": Path(arguments.model).name, "cores": os.cpu_count()}
    command.finish(arguments, {"ours": ours, "settings": settings})


if __name__ == "__main__":
    main()
