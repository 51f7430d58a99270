"""Micro-batches by token budget: padded share and CPU time of a training step, by how rows are put together.

    python -m lab.benchmarks.micro_batches --json

1 M parameters, nine groups of eight completions whose lengths have a long tail (mean 25, at most 192). fixed takes a
fixed number of rows in their order; tight and dynamic are the options of `training.micro_batches`.
"""

import random
from collections.abc import Sequence
from statistics import median
from time import process_time

import torch

from lab.benchmarks import command, common
from swarm_node.policy import rows
from swarm_node.policy.batching import dynamic_batches
from swarm_node.policy.policy import Policy

BUDGET = 2048  # tokens
FIXED = {"packed": 3, "padded": 16}  # rows of a micro-batch
MEAN_LENGTH, MAX_LENGTH = 25, 192


def groups(policy: Policy) -> list[rows.Row]:
    rng = random.Random(0)

    def completion() -> list[int]:
        length = min(MAX_LENGTH, 1 + int(rng.expovariate(1 / MEAN_LENGTH)))
        return [rng.randrange(3, 90) for _ in range(length)]

    texts = common.prompts(common.FULL.prompt_lengths)
    return [rows.Row(policy.encode_prompt(text), [completion() for _ in range(common.GROUP_SIZE)]) for text in texts]


def step(policy: Policy, layout: Sequence[rows.Row], batches: Sequence[Sequence[int]]) -> float:
    """CPU seconds of forward and backward over all micro-batches."""
    began = process_time()
    for indices in batches:
        batch = rows.build([layout[i] for i in indices], policy.pad_id, policy.device)
        log_probs = torch.log_softmax(policy.logits(batch).float(), -1).gather(-1, batch.target[:, None])
        log_probs.sum().backward()  # type: ignore[no-untyped-call]
    policy.model.zero_grad()
    return process_time() - began


def padded_share(layout: Sequence[rows.Row], batches: Sequence[Sequence[int]]) -> float:
    size = sum(
        (max(len(layout[i].prompt) for i in batch) + max(layout[i].fed for i in batch)) * len(batch)
        for batch in batches
    )
    return 1 - sum(row.length for row in layout) / size


def main() -> None:
    arguments = common.parser("lab.benchmarks.micro_batches", __doc__).parse_args()
    common.settle()
    policy = Policy(common.model("tiny" if arguments.quick else "1M"), common.tokenizer(), torch.device("cpu"))
    packed = groups(policy)
    padded = [rows.Row(row.prompt, [completion]) for row in packed for completion in row.completions]
    found: dict[str, dict[str, float]] = {}
    for name, layout in (("packed", packed), ("padded", padded)):
        count = FIXED[name]
        sides = {
            "fixed": [list(range(len(layout)))[i : i + count] for i in range(0, len(layout), count)],
            "tight": list(rows.micro_batches(layout, BUDGET)),
            "dynamic": dynamic_batches(layout, BUDGET),
            "dynamic, at least 4": dynamic_batches(layout, BUDGET, fewest=4),
        }
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(arguments.repetitions or 7):
            for side, batches in sides.items():
                seconds[side].append(step(policy, layout, batches))
        for side, batches in sides.items():
            found[f"{name}, {side}"] = {
                "micro_batches": len(batches),
                "padded_share": padded_share(layout, batches),
                "cpu_seconds": median(seconds[side]),
            }
    lines = [
        [name, f"{side['micro_batches']:.0f}", f"{side['padded_share']:.1%}", f"{side['cpu_seconds']:.3f}"]
        for name, side in found.items()
    ]
    command.show(["", "micro-batches", "pads", "CPU s"], lines)
    ratio = found["padded, fixed"]["cpu_seconds"] / found["padded, dynamic"]["cpu_seconds"]
    command.finish(arguments, {"ratio": ratio, "sides": found})


if __name__ == "__main__":
    main()
