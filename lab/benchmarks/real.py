"""Peak memory and time of rounds and updates for the shapes of models that people use, beside TRL
with its defaults.

A round is generation and one update. TRL's defaults compute blocks again in the backward pass, as
ours do here; nothing is turned off on either side. Weights are random, in float32 on a CPU. Each
side runs in a process of its own: one round that is not measured, then one that is. Memory is what
the measured round adds to the memory held after the first: weights, gradients and Adam's state do
not count. `--gpu` measures whole models on CUDA; run it with lab.benchmarks.fp8_gpu, both in ten
minutes.
"""

import contextlib
import ctypes
import gc
import io
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from lab.benchmarks import command, common
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.policy import Policy
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer

MEBIBYTE = 2**20
MODELS = (
    "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen/Qwen3-0.6B",
    "meta-llama/Llama-3.2-1B-Instruct",
    "google/gemma-3-270m-it",
    "HuggingFaceTB/SmolLM2-135M-Instruct",
)
SIDES = ("ours", "TRL")


@dataclass(frozen=True, slots=True)
class Load:
    """The amount of work, and the model."""

    model: str
    layers: int  # of its blocks; 0 for all
    prompts: int
    new_tokens: int
    device: str


def resident(what: str) -> float:
    """MiB of this process. `what` is VmRSS (now) or VmHWM (the highest so far). Not getrusage: its
    figure is inherited from the parent.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{what}:")).split()[1]) / 1024


class Meter:
    """Seconds and peak memory of a stretch of work."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"
        self.result: dict[str, float] = {}

    def start(self) -> None:
        gc.collect()
        if self._cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            self._rest = torch.cuda.memory_allocated() / MEBIBYTE
            self._began = time.perf_counter()
        else:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            self._rest = resident("VmRSS")
            self._began = time.process_time()

    def stop(self) -> None:
        if self._cuda:
            torch.cuda.synchronize()
            peak, now = torch.cuda.max_memory_allocated() / MEBIBYTE, time.perf_counter()
        else:
            peak, now = resident("VmHWM"), time.process_time()
        self.result = {
            "seconds": now - self._began,
            "added_mebibytes": peak - self._rest,
            "peak_mebibytes": peak,
        }


def ours(load: Load) -> dict[str, dict[str, float]]:
    """Figures of one round of ours, and of its two parts."""
    autocast = torch.bfloat16 if load.device == "cuda" else None
    made = common.model(load.model, load.layers).to(load.device)
    policy = Policy(made, common.tokenizer(), torch.device(load.device), autocast)
    generation = GenerationConfig(
        num_generations=common.GROUP_SIZE, max_completion_length=load.new_tokens
    )
    generator = BatchGenerator(policy, generation)
    training = TrainingConfig(learning_rate=common.RATE)
    trainer = GrpoTrainer(policy, training, generation, recompute=True)
    prompts = common.prompts([60] * load.prompts)
    meters = {name: Meter(load.device) for name in ("generation", "update")}
    for turn in range(2):
        meters["generation"].start()
        found = generator.generate(prompts, common.GROUP_SIZE, str(turn))
        meters["generation"].stop()
        meters["update"].start()
        groups = [common.scored(*each) for each in zip(prompts, found, strict=True)]
        assert trainer.update(groups).optimizer_steps == 1
        meters["update"].stop()
    parts = {name: meter.result for name, meter in meters.items()}
    first, second = parts.values()
    seconds = first["seconds"] + second["seconds"]
    peaks = {name: max(first[name], second[name]) for name in ("added_mebibytes", "peak_mebibytes")}
    return {**parts, "round": {"seconds": seconds, **peaks}}


def theirs(load: Load) -> dict[str, dict[str, float]]:
    """A round of TRL's GRPOTrainer."""
    from transformers import TrainerCallback

    meter = Meter(load.device)

    class Turns(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_args: Any, **_kwargs: Any) -> None:
            meter.start()

        def on_step_end(self, *_args: Any, **_kwargs: Any) -> None:
            meter.stop()

    work = common.Workload((), (60,) * load.prompts, load.new_tokens, 1)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        how = {"use_cpu": load.device == "cpu", "bf16": load.device == "cuda"}
        with contextlib.redirect_stdout(io.StringIO()):
            made = common.model(load.model, load.layers).to(load.device)
            common.trl_trainer(made, common.tokenizer(), work, folder, Turns(), **how).train()
    return {"round": meter.result}


def measured(side: str, load: Load) -> dict[str, dict[str, float]]:
    """One side, in this process."""
    common.settle()
    return ours(load) if side == "ours" else theirs(load)


def main() -> None:
    parser = command.parser("lab.benchmarks.real", __doc__)
    command.add_quick(parser)
    parser.add_argument("--gpu", action="store_true", help="whole models on CUDA")
    parser.add_argument("--layers", type=int, default=4, help="blocks of each model on a CPU (4)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=None)
    arguments = parser.parse_args()
    if arguments.gpu and not torch.cuda.is_available():
        parser.error("--gpu needs a CUDA device, and there is none")
    quick, gpu = arguments.quick, arguments.gpu
    names = arguments.models or (MODELS[-1:] if quick else MODELS)
    how = (
        (0, 8, 256, "cuda")
        if gpu
        else (1, 1, 4, "cpu")
        if quick
        else (arguments.layers, 2, 64, "cpu")
    )
    results: dict[str, Any] = {}
    lines: list[list[str]] = []
    for name in names:
        load = Load(name, *how)
        found: dict[str, Any] = {}
        for side in SIDES:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                found[side] = pool.submit(measured, side, load).result()
            for part, figures in found[side].items():
                cells = [f"{figures['added_mebibytes']:.0f}", f"{figures['peak_mebibytes']:.0f}"]
                lines.append(
                    [
                        f"{name.rpartition('/')[2]}, {side}, {part}",
                        *cells,
                        f"{figures['seconds']:.1f}",
                    ]
                )
                print(" | ".join(lines[-1]), flush=True)
        results[name] = found
    command.show(["", "added MiB", "peak MiB", "seconds" if gpu else "CPU s"], lines)
    last = results[names[-1]]
    ratio = last["TRL"]["round"]["added_mebibytes"] / last["ours"]["round"]["added_mebibytes"]
    settings = {
        "layers": arguments.layers,
        "gpu": gpu,
        **command.versions("torch", "transformers", "trl"),
    }
    command.finish(arguments, {"ratio": ratio, "models": results, "settings": settings})


if __name__ == "__main__":
    main()
