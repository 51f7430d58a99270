"""Make puzzles ahead, into a file:

    python -m swarm_node.environments.temporal_clue.make full --count 64 --out FILE.json

For sizes that take too long to be made on request. Runs beside training at the lowest priority. A
puzzle that exceeds its time is named and left out. A later start continues where the last one
stopped.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from swarm_node.common.console import Terminal
from swarm_node.common.files import write_json
from swarm_node.environments.temporal_clue import generate, text
from swarm_node.environments.temporal_clue.sizes import SIZES
from swarm_node.environments.temporal_clue.solver import Undecided
from swarm_node.scoring.confinement import OutOfTime, cpu_budget


def main() -> None:
    """Makes a file of puzzles, slowly and at low priority."""
    parser = argparse.ArgumentParser(
        prog="python -m swarm_node.environments.temporal_clue.make", description=__doc__
    )
    parser.add_argument("size", choices=list(SIZES))
    parser.add_argument("--count", type=int, default=64, help="puzzles in the file")
    parser.add_argument(
        "--seed", type=int, default=0, help="files of different seeds have different puzzles"
    )
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds a puzzle may take")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    os.nice(19)
    make(options.size, options.seed, options.count, options.limit, options.out, Terminal())


def make(config_id: str, seed: int, count: int, limit: int, out: Path, console: Console) -> None:
    """Fill the file up to `count` puzzles. The file is rewritten after each puzzle."""
    puzzles: list[dict[str, Any]] = json.loads(out.read_text("utf-8")) if out.exists() else []
    index = 1 + max((entry["index"] for entry in puzzles), default=-1)
    while len(puzzles) < count:
        began = time.monotonic()
        try:
            with cpu_budget(limit):
                entry = as_entry(config_id, seed, index)
        except (OutOfTime, Undecided):
            console.print(f"puzzle {index}: given up after {time.monotonic() - began:.0f} s")
        else:
            puzzles.append(entry)
            write_json(out, puzzles)
            console.print(
                (
                    f"{len(puzzles)}/{count}: {entry['num_clues']} clues, "
                    f"{time.monotonic() - began:.1f} s"
                ),
                highlight=False,
            )
        index += 1


def as_entry(config_id: str, seed: int, index: int) -> dict[str, Any]:
    """A puzzle in the form of the published file, with its address beside."""
    puzzle = generate.generate(config_id, seed, index)
    return {
        "num_clues": len(puzzle.clues),
        "prompt": text.prompt(puzzle),
        "solution": text.key(puzzle),
        "options": puzzle.setting.names,
        "version": SIZES[config_id].draws,
        "config_id": config_id,
        "seed": seed,
        "index": index,
    }


if __name__ == "__main__":
    main()
