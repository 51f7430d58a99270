"""The time of one training step on packed rows beside the same step on padded rows.

A step is the trainer's own: forward, loss, backward, clip, AdamW. Only the layout of rows differs. On the CPU sides are
compared by CPU time of one thread; with --gpu by wall time, on the shape of Qwen2.5-0.5B with rows of 16k tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from lab.benchmarks import command, common
from protocol.messages import Episode, PeerId, Question, RolloutGroup
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import ScoredGroup
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer

Layout = Literal["packed", "padded"]
LAYOUTS: tuple[Layout, Layout] = ("packed", "padded")
QUESTION = Question(environment="lab", version="1", dataset="text", config_id="any", digest="A" * 11, seed=0, index=0)


@dataclass(frozen=True, slots=True)
class Shape:
    """Groups of one step, in tokens."""

    prompt: int
    completions: int
    length: int
    groups: int

    @property
    def name(self) -> str:
        return f"{self.prompt} + {self.completions} x {self.length}"


SHAPES = (Shape(200, 8, 40, 4), Shape(1000, 16, 100, 1))
QUICK = (Shape(40, 4, 8, 2),)
RECIPE = (Shape(1000, 50, 300, 4),)  # a row of 16k tokens holds one group


def model(size: str) -> Any:
    made = common.model(size)
    made.config.max_position_embeddings = 4096
    return made


def groups(shape: Shape) -> list[ScoredGroup]:
    """External completions: one token a character, every completion of full length, rewards that make groups
    informative."""
    made = []
    for number in range(shape.groups):
        prompt = (common.prompts([100])[0] * (shape.prompt // 100 + 1))[: shape.prompt - 2] + f"{number % 10}:"
        texts = [(f"{number}.{k} " * shape.length)[: shape.length] for k in range(shape.completions)]
        completions = tuple(Episode.of(text=text, ended=False) for text in texts)
        group = RolloutGroup(author=PeerId("benchmark"), round=0, question=QUESTION, episodes=completions)
        made.append(ScoredGroup(group, prompt, tuple(k % 2 / 1.0 for k in range(shape.completions))))
    return made


def trainer(size: str, layout: Layout, device: str) -> GrpoTrainer:
    autocast = torch.bfloat16 if device == "cuda" else None
    policy = Policy(model(size).to(device), common.tokenizer(), torch.device(device), autocast)
    training = TrainingConfig(learning_rate=1e-6)
    return GrpoTrainer(policy, training, GenerationConfig(), layout=layout)


def step(made: GrpoTrainer, load: list[ScoredGroup], shape: Shape) -> Callable[[], None]:
    def work() -> None:
        report = made.update(load)
        tokens = shape.groups * shape.completions * shape.length
        assert (report.optimizer_steps, report.trained_tokens) == (1, tokens), report

    return work


def measure(size: str, shape: Shape, repetitions: int, device: str) -> dict[str, Any]:
    made = {layout: trainer(size, layout, device) for layout in LAYOUTS}
    load = groups(shape)
    works: dict[str, Callable[[], None]] = {layout: step(made[layout], load, shape) for layout in LAYOUTS}
    seconds = common.gpu_seconds if device == "cuda" else common.cpu_seconds
    spreads = common.in_turn(works, repetitions, f"{size}, {shape.name}", seconds)
    packing = made["packed"].packing
    return {
        "ratio": spreads["padded"].median / spreads["packed"].median,
        "seconds": {layout: spread.median for layout, spread in spreads.items()},
        "attention": packing.value if packing else None,
    }


def main() -> None:
    parser = common.parser("lab.benchmarks.packing", __doc__, "tiny", "1M", "10M")
    parser.add_argument("--gpu", action="store_true", help="the recipe on CUDA: rows of 16k tokens, 0.5 B parameters")
    arguments = parser.parse_args()
    common.settle()
    if arguments.gpu and not torch.cuda.is_available():
        parser.error("--gpu needs a CUDA device, and there is none")
    shapes = RECIPE if arguments.gpu else QUICK if arguments.quick else SHAPES
    sizes = arguments.sizes or (["Qwen2.5-0.5B"] if arguments.gpu else ["tiny"] if arguments.quick else ["1M", "10M"])
    repetitions = arguments.repetitions or (1 if arguments.quick else 2)
    device = "cuda" if arguments.gpu else "cpu"
    results = {s: {shape.name: measure(s, shape, repetitions, device) for shape in shapes} for s in sizes}
    lines = [
        [f"{size}, {name}", *[f"{found['seconds'][layout]:.2f}" for layout in LAYOUTS], f"{found['ratio']:.2f}x"]
        for size, by_shape in results.items()
        for name, found in by_shape.items()
    ]
    command.show(["", "packed s", "padded s", "ratio"], lines)
    settings = {"device": device, "repetitions": repetitions, **command.versions("torch", "transformers")}
    ratio = results[sizes[-1]][shapes[0].name]["ratio"]
    command.finish(arguments, {"ratio": ratio, "sizes": results, "settings": settings})


if __name__ == "__main__":
    main()
