"""A node of several ranks beside one process: time and memory of each rank, and how far the weights come apart.

    python -m lab.benchmarks.parallel --ranks 2 --json
    python -m lab.benchmarks.parallel --ranks 2 --shard     # with gpus.shard_optimizer

Nine prompts, eight completions each, one update; the same with 1 rank and with `--ranks`, which torchrun starts. On
GPUs each rank has one and memory is the device's, else each has one thread and memory is that of its process.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import torch
from safetensors.torch import load_file

from lab.benchmarks import command, common


def measured(ranks: int, size: str, repetitions: int, shard: bool, folder: Path) -> list[dict[str, Any]]:
    """What each rank reports. Its weights after the updates are in the folder."""
    folder.mkdir()
    run = ["-m", "lab.benchmarks.parallel_rank", size, str(repetitions), str(folder), *["shard"] * shard]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    words = [sys.executable, *(torchrun if ranks > 1 else []), *run]
    subprocess.run(words, check=True, stdout=sys.stderr, cwd=command.ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


def apart(one: Path, several: Path) -> float:
    """The largest difference of a weight after the same updates."""
    left, right = (load_file(folder / "weights.safetensors") for folder in (one, several))
    return max(float((left[name] - right[name]).abs().max()) for name in left)


def main() -> None:
    made = common.parser("lab.benchmarks.parallel", __doc__, *common.FULL.sizes)
    made.add_argument("--ranks", type=int, default=max(2, torch.cuda.device_count()), help="processes of the node")
    made.add_argument("--shard", action="store_true", help="each rank keeps AdamW's state of its share of the weights")
    arguments = made.parse_args()
    load = common.workload(arguments)
    sizes: dict[str, Any] = {}
    lines = []
    for size in load.sizes:
        with tempfile.TemporaryDirectory() as kept:
            folders = {count: Path(kept) / str(count) for count in (1, arguments.ranks)}
            found = {
                count: measured(count, size, load.repetitions, arguments.shard, folder)
                for count, folder in folders.items()
            }
            difference = apart(folders[1], folders[arguments.ranks])
        sizes[size] = {"difference": difference, "ranks": {str(count): found[count] for count in found}}
        for count, reports in found.items():
            for rank, report in enumerate(reports):
                times = [f"{median(report[name]):.2f}" for name in ("generate", "update")]
                sizes_of = [f"{report[name]:.1f}" for name in ("weights_mb", "state_mb")]
                lines.append([f"{size}, rank {rank} of {count}", *times, f"{report['memory_mb']:.0f}", *sizes_of])
    command.show(["", "generate s", "update s", "memory MB", "weights MB", "state MB"], lines)
    for size, result in sizes.items():
        print(f"{size}: weights differ by {result['difference']:.1e} at most")
    slowest = [max(median(r["update"]) for r in side) for side in sizes[load.sizes[-1]]["ranks"].values()]
    command.finish(arguments, {"ratio": slowest[0] / slowest[1], **common.settings(load), "sizes": sizes})


if __name__ == "__main__":
    main()
