"""Do puzzles teach? Tiny Temporal Clue puzzles on a CPU: before and after, and 16 training puzzles against many.

    python -m benchmarks.puzzle_learning --json      # docs/results/temporal_clue.md

Both arms start from the starter `puzzler`, with one configuration and the same validation on puzzles nobody trains on.
`many`: every round asks new puzzles. `16`: the same sixteen, from a file. The last line of --json: `ratio` is the share
of questions answered rightly after training on many puzzles over that before.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from swarm_node.config import EvaluationConfig, GenerationConfig, ModelConfig, NodeConfig
from swarm_node.environment.temporal_clue.make import as_entry
from swarm_node.evaluate import TaskAccuracy, evaluate
from swarm_node.settings import read_file
from swarm_node.simulation.statistics import ci95
from swarm_node.start import run
from swarm_node.telemetry.jsonlines import read_jsonlines

CONFIG = Path("configs/temporal_clue_small.toml")
TASK = "temporal_clue/tiny"
FEW = 16
HELD_OUT = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", default="puzzler")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--arms", nargs="+", default=["many", str(FEW)])
    parser.add_argument("--runs", type=Path, default=Path("runs/puzzle_learning"))
    options = parser.parse_args()
    before = share(options.model)
    print(f"before: {shown(before)}", flush=True)
    result: dict[str, Any] = {"before": before.accuracy, "interval": [before.low, before.high], "arms": {}}
    for arm in options.arms:
        curves, after = [], []
        for seed in range(options.seeds):
            home = options.runs / f"{arm}-{options.rate}-{seed}"
            train(arm, seed, options, home)
            curves.append(curve(home))
            after.append(share(str(sorted((home / "checkpoints").glob("[0-9]*"))[-1])))
            print(f"{arm}, seed {seed}: after {shown(after[-1])}", flush=True)
        half = ci95([row.accuracy for row in after])
        mean = fmean(row.accuracy for row in after)
        result["arms"][arm] = {
            "after": [row.accuracy for row in after],
            "mean": mean,
            "half_interval": half,
            "curves": curves,
        }
        print(f"{arm}: {mean:.3f} {'' if half is None else f'+- {half:.3f}'}", flush=True)
        print("  rounds  " + "  ".join(str(number) for number, _ in curves[0]))
        print(
            "  reward  " + "  ".join(f"{fmean(c[k][1] for c in curves):.3f}" for k in range(len(curves[0]))), flush=True
        )
    result["ratio"] = result["arms"][options.arms[0]]["mean"] / before.accuracy
    if options.json:
        print(json.dumps(result))


def train(arm: str, seed: int, options: argparse.Namespace, home: Path) -> None:
    """One run in `home`, which goes on where it was interrupted."""
    values = read_file(CONFIG)
    values |= {"home": home, "max_rounds": options.rounds, "seed": seed, "threads": 1, "network": {"enabled": False}}
    values["model"]["name"] = options.model
    values["training"]["learning_rate"] = options.rate
    values["validation"]["tasks"] = [TASK]
    if arm != "many":
        file = options.runs / f"{arm}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([as_entry("tiny", 2**33, index) for index in range(int(arm))]))
        values["environment"] |= {"tasks": ["temporal_clue/published"], "puzzles": file}
    run(NodeConfig.model_validate(values), Console(quiet=True))


def curve(home: Path) -> list[tuple[int, float]]:
    """Validation reward by rounds done."""
    events = read_jsonlines(home / "events.jsonl")
    found = {event["round"]: event["reward"] for event in events if event["event"] == "Validated"}
    return sorted(found.items())


def share(model: str) -> TaskAccuracy:
    """Share of questions of held-out puzzles answered rightly, one sampled answer each."""
    config = EvaluationConfig(
        model=ModelConfig(name=model),
        generation=GenerationConfig(max_completion_length=20),
        tasks=(TASK,),
        questions=HELD_OUT,
    )
    return evaluate(config, Console(quiet=True))[0]


def shown(row: TaskAccuracy) -> str:
    return f"{row.accuracy:.3f} ({row.low:.3f} to {row.high:.3f}, {row.questions} puzzles)"


if __name__ == "__main__":
    main()
