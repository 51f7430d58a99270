"""Generation, update and round of an older commit beside ours, in turn, each side in a process of
its own.

    git worktree add OLD 6bddc25 && python3 -m venv OLD/.venv && OLD/.venv/bin/pip install -e
    'OLD[dev]' python -m lab.benchmarks.older OLD --sizes SmolLM2-135M --prompt 256 --new 64 --json

Both sides have groups of 8, the same weights and prompts; CPU seconds of one thread count. The
share of the limit is the time of the products with weights at the speed of a plain product, over
the time taken. For each weight and token generation has one product, an update three, or two with
adapters.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from lab.benchmarks import command, common

Seconds = dict[str, float]  # CPU seconds of generation, update and round


def started(
    python: Path | str, folder: Path, texts: list[str], arguments: list[str]
) -> Callable[[], Seconds]:
    """Starts a process of a side. Returns a function that makes it take a turn. It ends with this
    process.
    """
    line = [str(python), str(Path(__file__).with_name("older_side.py")), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    side = subprocess.Popen(
        line, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert side.stdin is not None and side.stdout is not None
    asked, said = side.stdin, side.stdout
    print(json.dumps(texts), file=asked, flush=True)

    def turn() -> Seconds:
        print(file=asked, flush=True)
        if not (answer := said.readline()):
            raise SystemExit(f"the process in {folder} ended: see above")
        generation, update = map(float, answer.split())
        return {"generation": generation, "update": update, "round": generation + update}

    return turn


def measured(
    older: Path, python: Path | str, load: common.Workload, dtype: str, rank: int
) -> dict[str, common.Spread]:
    """Both sides' CPU seconds of each part, after one turn that warms up."""
    given = (
        common.prompts(load.prompt_lengths),
        [load.sizes[0], dtype, str(rank), str(load.new_tokens)],
    )
    turns = {
        "older": started(python, older, *given),
        "ours": started(sys.executable, command.ROOT, *given),
    }
    for turn in turns.values():
        turn()
    found: dict[str, list[float]] = {}
    for repetition in range(load.repetitions):
        latest = {
            f"{part}, {name}": taken
            for name, turn in turns.items()
            for part, taken in turn().items()
        }
        for name, taken in latest.items():
            found.setdefault(name, []).append(taken)
        common.progress(f"{load.sizes[0]} {dtype}", repetition, load.repetitions, latest)
    return {name: common.Spread(tuple(taken)) for name, taken in found.items()}


def compared(
    spreads: dict[str, common.Spread], load: common.Workload, dtype: str, rank: int
) -> dict[str, Any]:
    """Each part of both sides with its speed relative to the older side's, and its share of the
    limit.
    """
    one = common.products(load.sizes[0], load) / common.limits(getattr(torch, dtype))["flops"]
    least = {
        "generation": one,
        "update": one * (2 if rank else 3),
        "round": one * (3 if rank else 4),
    }
    sides: dict[str, Any] = {}
    for part, seconds in least.items():
        pair = {name: spreads[name] for name in (f"{part}, older", f"{part}, ours")}
        for name, side in common.compared(pair, f"{part}, older", load.tokens).items():
            sides[name] = {**side, "of_limit": seconds / pair[name].median}
    return sides


def main() -> None:
    parser = common.parser("lab.benchmarks.older", __doc__, "tiny", "1M", "10M")
    parser.add_argument("older", type=Path, metavar="OLD", help="a checkout of an older commit")
    parser.add_argument("--python", type=Path, help="what runs it (OLD/.venv/bin/python)")
    parser.add_argument(
        "--type", choices=("float32", "bfloat16"), default="float32", help="of products (float32)"
    )
    parser.add_argument(
        "--lora-rank", type=int, default=0, help="adapters of this rank alone are trained"
    )
    options = parser.parse_args()
    common.settle()
    load = common.workload(options)
    python = (options.python or options.older / ".venv" / "bin" / "python").absolute()
    sides: dict[str, Any] = {}
    for size in load.sizes:
        each = replace(load, sizes=(size,))
        spreads = measured(options.older, python, each, options.type, options.lora_rank)
        found = compared(spreads, each, options.type, options.lora_rank)
        rows = zip(common.side_lines(size, found), found.values(), strict=True)
        command.show(
            [*common.SIDE_HEADER, "of the limit"],
            [[*row, f"{side['of_limit']:.2f}"] for row, side in rows],
        )
        sides |= {f"{size} {name}": side for name, side in found.items()}
    ratio = min(
        side["ratio"]["median"] for name, side in sides.items() if name.endswith("round, ours")
    )
    command.finish(
        options, {"ratio": ratio, "sides": sides, **command.versions("torch", "transformers")}
    )


if __name__ == "__main__":
    main()
