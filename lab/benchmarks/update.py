"""The update alone beside that of an older commit, and beside its plain products, in turn.

    git worktree add OLD COMMIT
    python -m lab.benchmarks.update OLD --sizes SmolLM2-135M --prompt 45 --new 16 --lora-rank 16

Each side is a process of its own, on the packages of this environment, with the same weights and
groups of 8 completions of random tokens. CPU seconds of one thread count. *Plain products* are
`torch.mm` of the matrices that an update multiplies, of the same shapes, with nothing around: two
for each weight of a linear layer, forward and backward, or three where the weights are trained. The
output head has only tokens that are predicted. Adapters, attention and the loss are not among them.
`--count` also says how many operators an update calls, and what it keeps for its backward pass.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lab.benchmarks import command, common
from lab.benchmarks.update_side import groups_of
from swarm_node.policy.batch import build_tree

OLDER, OURS, PLAIN = "older", "ours", "plain products"


@dataclass(frozen=True, slots=True)
class Update:
    """What is updated, and on what."""

    size: str
    layers: int  # of its blocks; 0 for all
    dtype: str
    rank: int  # of the adapters; 0 trains all weights
    prompts: int
    prompt: int  # tokens
    new: int  # tokens

    @property
    def arguments(self) -> list[str]:
        numbers = self.rank, self.prompts, self.prompt, self.new
        return [self.size, str(self.layers), self.dtype, *map(str, numbers)]


class Side:
    """A process of a side, which ends with this one."""

    def __init__(self, folder: Path, update: Update) -> None:
        script = Path(__file__).with_name("update_side.py")
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(script), *update.arguments],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._folder = folder

    def ask(self, line: str = "") -> dict[str, float]:
        """What the side answers to this line."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        print(line, file=asked, flush=True)
        if not (answer := answers.readline()):
            raise SystemExit(f"the process in {self._folder} ended: see above")
        found: dict[str, float] = json.loads(answer)
        return found


def plain_products(update: Update) -> Callable[[], None]:
    """Multiplies once what an update multiplies."""
    dtype = getattr(torch, update.dtype)
    model = common.model(update.size, update.layers).to(dtype)
    groups = groups_of(model.config.vocab_size, update.prompts, update.prompt, update.new)
    batch = build_tree(groups, torch.device("cpu"))
    assert batch.tree is not None
    rows = {False: len(batch.tree.ids_L), True: len(batch.columns_U)}
    products: list[Callable[[], object]] = []
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            weight = module.weight.detach()
            count = rows[module is model.lm_head]
            products += _products(weight, count, trained=not update.rank)

    def work() -> None:
        for product in products:
            product()

    return work


def _products(weight: torch.Tensor, rows: int, *, trained: bool) -> list[Callable[[], object]]:
    """Forward and backward by one weight. A large result is made in parts, as a loss would."""
    outputs, inputs = weight.shape
    part = min(rows, max(1, 2**27 // (4 * outputs)))
    parts = [min(part, rows - first) for first in range(0, rows, part)]
    x, gradient = (torch.randn(part, width, dtype=weight.dtype) for width in (inputs, outputs))

    def forward() -> None:
        for count in parts:
            torch.mm(x[:count], weight.T)

    def backward() -> None:
        for count in parts:
            torch.mm(gradient[:count], weight)

    def of_weight() -> None:
        for count in parts:
            torch.mm(gradient[:count].T, x[:count])

    return [forward, backward, *([of_weight] if trained else [])]


def measured(older: Path, update: Update, repetitions: int) -> dict[str, common.Spread]:
    """CPU seconds of the sides, in turn, after one turn that warms up."""
    sides = {OLDER: Side(older, update), OURS: Side(command.ROOT, update)}
    plain = plain_products(update)
    taken: dict[str, list[float]] = {name: [] for name in (*sides, PLAIN)}
    for repetition in range(-1, repetitions):
        latest = {name: side.ask()["cpu_seconds"] for name, side in sides.items()}
        latest[PLAIN] = common.cpu_seconds(plain)
        if repetition < 0:
            continue
        for name, seconds in latest.items():
            taken[name].append(seconds)
        common.progress(update.size, repetition, repetitions, latest)
    return {name: common.Spread(tuple(seconds)) for name, seconds in taken.items()}


def main() -> None:
    parser = common.parser("lab.benchmarks.update", __doc__, "tiny", "1M", "10M")
    parser.add_argument("older", type=Path, metavar="OLD", help="a checkout of an older commit")
    parser.add_argument("--type", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument(
        "--lora-rank", type=int, default=0, help="adapters of this rank alone are trained"
    )
    parser.add_argument("--layers", type=int, default=0, help="blocks of a real shape (all)")
    parser.add_argument("--prompts", type=int, default=2, help="groups of an update (2)")
    parser.add_argument("--count", action="store_true", help="operators and kept memory, too")
    options = parser.parse_args()
    common.settle()
    load = common.workload(options)
    update = Update(
        load.sizes[0],
        options.layers,
        options.type,
        options.lora_rank,
        options.prompts,
        load.prompt_lengths[0],
        load.new_tokens,
    )
    spreads = measured(options.older, update, load.repetitions)
    sides = common.compared(spreads, OLDER, update.prompts * common.GROUP_SIZE * update.new)
    shares = {name: spreads[PLAIN].median / spread.median for name, spread in spreads.items()}
    rows = zip(common.side_lines(update.size, sides), shares.values(), strict=True)
    command.show(
        [*common.SIDE_HEADER, "of plain products"], [[*row, f"{share:.2f}"] for row, share in rows]
    )
    result: dict[str, Any] = {
        "ratio": sides[OURS]["ratio"]["median"],
        "sides": sides,
        "of_plain_products": shares,
        **command.versions("torch", "transformers"),
    }
    if options.count:
        folders = {OLDER: options.older, OURS: command.ROOT}
        counts = {name: Side(folder, update).ask("count") for name, folder in folders.items()}
        command.show(
            ["", "operators", "kept MiB"],
            [
                [name, str(found["operators"]), f"{found['kept_mebibytes']:.0f}"]
                for name, found in counts.items()
            ],
        )
        result["counts"] = counts
    command.finish(options, result)


if __name__ == "__main__":
    main()
