"""One training step on packed rows beside the same step on padded rows: time, memory, and that gradients are equal.

A step is the trainer's own: forward, loss, backward, clip, AdamW. Only the layout of rows differs. On the CPU sides are
compared by CPU time of one thread; with --gpu by wall time, on the shape of Qwen2.5-0.5B with rows of 16k tokens.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from lab.benchmarks import command, common
from lab.benchmarks.resident import resident
from protocol.messages import Completion, PeerId, Question, RolloutGroup
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import ScoredGroup
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer

Layout = Literal["packed", "padded"]
LAYOUTS: tuple[Layout, Layout] = ("packed", "padded")
MEBIBYTE = 2**20
NO_CLIP = 1e9
QUESTION = Question(environment="benchmark", version="1", dataset="text", config_id="any", seed=0, index=0)


@dataclass(frozen=True, slots=True)
class Shape:
    """Groups of one step, in tokens."""

    prompt: int
    completions: int
    length: int
    groups: int
    demand: float  # padded over packed time

    @property
    def name(self) -> str:
        return f"{self.prompt} + {self.completions} x {self.length}"

    @property
    def token_ratio(self) -> float:
        """Columns that padded rows have for one of packed rows; the last token of a completion is never fed."""
        fed = self.length - 1
        return self.completions * (self.prompt + fed) / (self.prompt + self.completions * fed)


SHAPES = (Shape(200, 8, 40, 4, 3.0), Shape(1000, 16, 100, 1, 5.0))
QUICK = (Shape(40, 4, 8, 2, 0.0),)
RECIPE = (Shape(1000, 50, 300, 4, 0.0),)  # a row of 16k tokens holds one group


def model(size: str) -> Any:
    if size == "0.5B":
        torch.manual_seed(0)
        shape = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "tie_word_embeddings": True}
        heads = {"num_attention_heads": 14, "num_key_value_heads": 2}
        return Qwen2ForCausalLM(Qwen2Config(vocab_size=151936, **shape, **heads))
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
        completions = tuple(Completion(text=text, ended=False) for text in texts)
        group = RolloutGroup(author=PeerId("benchmark"), round=0, question=QUESTION, completions=completions)
        made.append(ScoredGroup(group, prompt, tuple(k % 2 / 1.0 for k in range(shape.completions))))
    return made


def trainer(size: str, layout: Layout, device: str) -> GrpoTrainer:
    autocast = torch.bfloat16 if device == "cuda" else None
    policy = Policy(model(size).to(device), common.tokenizer(), torch.device(device), autocast)
    training = TrainingConfig(learning_rate=1e-6, max_grad_norm=NO_CLIP)
    return GrpoTrainer(policy, training, GenerationConfig(), layout=layout)


def step(made: GrpoTrainer, load: list[ScoredGroup], shape: Shape) -> Callable[[], None]:
    def work() -> None:
        report = made.update(load)
        tokens = shape.groups * shape.completions * shape.length
        assert (report.optimizer_steps, report.trained_tokens) == (1, tokens), report

    return work


def gradient(size: str, shape: Shape, layout: Layout) -> torch.Tensor:
    """Of all parameters in one vector, as the optimiser gets it."""
    made, found = trainer(size, layout, "cpu"), []
    made.optimizer.register_step_pre_hook(
        lambda *_: found.append(torch.cat([p.grad.flatten() for g in made.optimizer.param_groups for p in g["params"]]))
    )
    step(made, groups(shape), shape)()
    return found[0]


def peak_memory(size: str, shape: Shape, layout: Layout, device: str) -> float:
    """MiB that a step adds at its peak to a process that holds model and optimiser; run in a process of its own."""
    common.settle()
    made = trainer(size, layout, device)
    warm = Shape(8, 2, 4, 1, 0.0)
    step(made, groups(warm), warm)()
    if device == "cuda":
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step(made, groups(shape), shape)()
        return (torch.cuda.max_memory_allocated() - held) / MEBIBYTE
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = resident("VmHWM")
    step(made, groups(shape), shape)()
    return resident("VmHWM") - before


def on_gpu(sides: Mapping[str, Callable[[], None]], repetitions: int) -> dict[str, common.Spread]:
    """Wall seconds of all sides in turn, after one unmeasured turn each."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repetitions + 1):
        for name, work in sides.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            work()
            torch.cuda.synchronize()
            seconds[name].append(time.perf_counter() - start)
    return {name: common.Spread(tuple(taken[1:])) for name, taken in seconds.items()}


def measure(size: str, shape: Shape, repetitions: int, device: str) -> dict[str, Any]:
    made = {layout: trainer(size, layout, device) for layout in LAYOUTS}
    load = groups(shape)
    works: dict[str, Callable[[], None]] = {layout: step(made[layout], load, shape) for layout in LAYOUTS}
    label = f"{size}, {shape.name}"
    spreads = on_gpu(works, repetitions) if device == "cuda" else common.in_turn(works, repetitions, label)
    packing = made["packed"].packing
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        memory = {layout: pool.submit(peak_memory, size, shape, layout, device).result() for layout in LAYOUTS}
    result: dict[str, Any] = {
        "ratio": spreads["padded"].median / spreads["packed"].median,
        "seconds": {layout: spread.median for layout, spread in spreads.items()},
        "all_seconds": {layout: spread.seconds for layout, spread in spreads.items()},
        "token_ratio": shape.token_ratio,
        "peak_mebibytes": memory,
        "attention": packing.value if packing else None,
        "demand": shape.demand,
    }
    if device == "cpu":
        ours, theirs = (gradient(size, shape, layout) for layout in LAYOUTS)
        result["gradient_difference"] = float((ours - theirs).abs().max())
        result["largest_gradient"] = float(theirs.abs().max())
    return result


def line(name: str, result: Mapping[str, Any]) -> list[str]:
    cells = [f"{result['seconds'][layout]:.2f}" for layout in LAYOUTS]
    memory = [f"{result['peak_mebibytes'][layout]:.0f}" for layout in LAYOUTS]
    difference = f"{result['gradient_difference']:.1e}" if "gradient_difference" in result else ""
    demand = f"{result['demand']:g}x" if result["demand"] else ""
    return [name, *cells, f"{result['ratio']:.2f}x", f"{result['token_ratio']:.2f}", demand, *memory, difference]


HEADER = ["", "packed s", "padded s", "ratio", "tokens", "demand", "packed MiB", "padded MiB", "gradients differ by"]


def main() -> None:
    parser = common.parser("lab.benchmarks.packing", __doc__, "tiny", "1M", "10M", "0.5B")
    parser.add_argument("--gpu", action="store_true", help="the recipe on CUDA: rows of 16k tokens, 0.5 B parameters")
    arguments = parser.parse_args()
    common.settle()
    if arguments.gpu and not torch.cuda.is_available():
        parser.error("--gpu needs a CUDA device, and there is none")
    shapes = RECIPE if arguments.gpu else QUICK if arguments.quick else SHAPES
    sizes = arguments.sizes or (["0.5B"] if arguments.gpu else ["tiny"] if arguments.quick else ["1M", "10M"])
    repetitions = arguments.repetitions or (1 if arguments.quick else 2)
    device = "cuda" if arguments.gpu else "cpu"
    results = {s: {shape.name: measure(s, shape, repetitions, device) for shape in shapes} for s in sizes}
    command.show(HEADER, [line(f"{s}, {name}", r) for s, found in results.items() for name, r in found.items()])
    first = results[sizes[-1]][shapes[0].name]
    result = {
        "ratio": first["ratio"],
        "ours": {"name": "packed", "seconds": first["seconds"]["packed"]},
        "theirs": {"name": "padded", "seconds": first["seconds"]["padded"]},
        "sizes": results,
        "settings": {"device": device, "repetitions": repetitions, **command.versions("torch", "transformers")},
    }
    command.finish(arguments, result)


if __name__ == "__main__":
    main()
