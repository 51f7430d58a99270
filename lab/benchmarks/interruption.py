"""The cost of new weights in the middle of completions, and the share of tokens that they make fresher.

    python -m lab.benchmarks.interruption --json

1 M parameters, nine prompts, eight completions each, lengths with a long tail (four tokens end a completion, at most
192 new tokens), CPU time of one thread. New weights come once, after some steps, or not at all.
"""

from statistics import median
from time import process_time

import torch

from lab.benchmarks import command, common
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import GeneratedGroup
from swarm_node.settings import GenerationConfig

AFTER = (0, 8, 32, 96)  # steps until new weights come; 0: they do not
LIMIT = 192  # tokens


def generate(policy: Policy, after: int) -> tuple[float, float, int]:
    """CPU seconds, the share of tokens that the new weights generated, and all tokens."""
    steps = 0

    def refresh() -> bool:
        nonlocal steps
        steps += 1
        policy.version += steps == after  # the same weights under a new version cost as much as new ones
        return steps == after

    policy.version = 0
    generator = BatchGenerator(policy, GenerationConfig(max_completion_length=LIMIT), refresh)
    began = process_time()
    generated = generator.generate(common.prompts(common.FULL.prompt_lengths), common.GROUP_SIZE, "interruption")
    seconds = process_time() - began
    versions = [v for group in generated if isinstance(group, GeneratedGroup) for t in group.tokens for v in t.versions]
    return seconds, sum(versions) / len(versions), len(versions)


def main() -> None:
    arguments = common.parser("lab.benchmarks.interruption", __doc__).parse_args()
    common.settle()
    policy = Policy(common.model("tiny" if arguments.quick else "1M"), common.tokenizer(), torch.device("cpu"))
    policy.eos_ids = frozenset({10, 20, 30, 40})
    runs: dict[int, list[tuple[float, float, int]]] = {after: [] for after in AFTER}
    for _ in range(arguments.repetitions or 5):
        for after in AFTER:
            runs[after].append(generate(policy, after))
    calm = median(seconds for seconds, _, _ in runs[0])
    sides = {
        f"after {after} steps" if after else "never": {
            "cpu_seconds": median(seconds for seconds, _, _ in several),
            "cost": median(seconds for seconds, _, _ in several) / calm,
            "fresh_share": several[0][1],
            "tokens": several[0][2],
        }
        for after, several in runs.items()
    }
    lines = [
        [name, f"{side['cpu_seconds']:.2f}", f"{side['cost']:.2f}x", f"{side['fresh_share']:.0%}", f"{side['tokens']}"]
        for name, side in sides.items()
    ]
    command.show(["new weights", "CPU s", "cost", "of new weights", "tokens"], lines)
    command.finish(arguments, {"ratio": max(side["cost"] for side in sides.values()), "sides": sides})


if __name__ == "__main__":
    main()
