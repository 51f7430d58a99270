"""The parts of `lab.benchmarks.lease` that no other benchmark measures: `python -m
lab.benchmarks.lease_parts NAME` does one, and prints its figures as JSON in its last line.

With `--quick`, or without a card, each runs to its end on a CPU with tiny sizes, and its figures
mean nothing.
"""

import argparse
import contextlib
import gc
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import torch
from torch.profiler import ProfilerActivity, profile

from lab.benchmarks import command, common
from lab.benchmarks.shapes import shapes
from swarm_node.common.cards import cards
from swarm_node.generation.block import Drawing, Graphs, Slots, _Recorded, block
from swarm_node.generation.generator import BatchGenerator
from swarm_node.generation.pacing import Astray
from swarm_node.node.learner import build_trainer
from swarm_node.policy import memory_plan, named
from swarm_node.policy.device import is_shortage, pin
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.loading import autocast_dtype, weights_dtype
from swarm_node.policy.plan import GIB
from swarm_node.policy.policy import Policy
from swarm_node.settings import (
    GenerationConfig,
    LearningConfig,
    ModelConfig,
    RoundConfig,
    TrainingConfig,
)

MODEL = named.OF_PACKAGE
HALF_B = "Qwen/Qwen2.5-0.5B-Instruct"
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
LOOPBACK = {
    "SWARM_NODE_NETWORK__HOST": "127.0.0.1",
    "SWARM_NODE_NETWORK__MDNS": "false",
    "SWARM_NODE_MDNS": "false",
    "HF_HUB_OFFLINE": "1",
}
DIAGNOSES = (0, 1, 3)  # exit codes of doctor
ADDRESS = re.compile(r"/ip4/127\.0\.0\.1/tcp/\d+/p2p/\w+")
PATIENCE, SLOW = 100.0, 1200.0  # seconds that a node may take for a step: with a card, without
Figures = dict[str, Any]
Part = Callable[[bool], Figures]


@dataclass(frozen=True, slots=True)
class Fit:
    """A model that is said to fit, or not to fit, a card of a size."""

    gib: int
    model: str
    lora: bool


FITS = (
    Fit(8, "Qwen/Qwen2.5-1.5B-Instruct", True),
    Fit(12, "Qwen/Qwen2.5-3B-Instruct", True),  # the plan says no
    Fit(16, "Qwen/Qwen2.5-3B-Instruct", True),
    Fit(12, HALF_B, False),
)


def machine(quick: bool) -> Figures:
    """The versions, the card and its driver."""
    found: Figures = {
        **command.versions("torch", "transformers", "peft"),
        "cuda": torch.version.cuda,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "cards": [[card.name, card.driver, card.capability] for card in cards()],
        "card": "none",
    }
    if CUDA:
        free, total = torch.cuda.mem_get_info()
        found |= {
            "card": torch.cuda.get_device_name(),
            "capability": torch.cuda.get_device_capability(),
            "free_gib": free / GIB,
            "total_gib": total / GIB,
            "allocator": os.environ.get("PYTORCH_ALLOC_CONF", ""),
        }
    return found


class Nodes:
    """Nodes, and a bootstrap node, as processes on loopback, in a folder of their own."""

    def __init__(self, folder: Path, patience: float) -> None:
        self.folder, self._program = folder, command.installed(folder)
        self._patience = patience  # seconds for each step
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *words: str) -> None:
        """Starts `swarm-node` with these words, and a home of this name, which is the process's
        name, too.
        """
        line = [str(self._program), *words, "--home", str(self.folder / name)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **LOOPBACK},
                start_new_session=True,
            )

    def said(self, name: str) -> str:
        """What the process of this name has printed."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def rounds(self, name: str) -> list[dict[str, Any]]:
        """The reports of the rounds that are done, from the home's events."""
        file = self.folder / name / "events.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        events = [json.loads(line) for line in lines if '"report"' in line and line.endswith("}")]
        return [event["report"] for event in events if "report" in event]

    def until(self, condition: Callable[[], Any], name: str, what: str) -> Any:
        """The first true answer of the condition. RuntimeError where the process of this name ends
        before, or patience does.
        """
        end = time.monotonic() + self._patience
        while time.monotonic() < end:
            if found := condition():
                return found
            if (code := self._started[name].poll()) is not None:
                raise RuntimeError(f"{name} ended with {code} before {what}: {self._last(name)}")
            time.sleep(0.2)
        raise RuntimeError(f"no {what} within {self._patience:.0f} s: {self._last(name)}")

    def ended(self, name: str, codes: Sequence[int] = (0,)) -> int:
        """The exit code of a process that should end now. RuntimeError for a code that is none of
        these.
        """
        code = self._started[name].wait(self._patience)
        if code not in codes:
            raise RuntimeError(f"{name} ended with {code}: {self._last(name)}")
        return code

    def pid(self, name: str) -> int:
        """The process of this name."""
        return self._started[name].pid

    def _last(self, name: str) -> str:
        return (self.said(name).strip().splitlines() or [""])[-1][:200]

    def close(self) -> None:
        """Ends what still runs."""
        for process in self._started.values():
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextlib.contextmanager
def nodes() -> Iterator[Nodes]:
    """Nodes that end with the context."""
    with tempfile.TemporaryDirectory(prefix="lease-") as folder:
        made = Nodes(Path(folder), PATIENCE if CUDA else SLOW)
        try:
            yield made
        finally:
            made.close()


class Utilisation:
    """How busy the card is, in percent, asked twice a second while the context lasts."""

    def __init__(self) -> None:
        self.seen: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Utilisation":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        program = shutil.which("nvidia-smi")
        query = [str(program), "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        while program and not self._over.wait(0.5):
            done = subprocess.run(query, capture_output=True, text=True, check=False)
            with contextlib.suppress(ValueError):
                self.seen.append(float(done.stdout.split()[0]) if done.stdout.split() else 0.0)

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.seen) if self.seen else None


def of_rounds(reports: Sequence[Mapping[str, Any]]) -> Figures:
    """Seconds by phase after the first rounds, which compile and try; and what was learned."""
    if not reports:
        return {"rounds": 0}
    later = reports[min(2, len(reports) - 1) :]
    phases = {
        name: statistics.fmean(float(report["seconds"].get(name, 0.0)) for report in later)
        for name in later[0]["seconds"]
    }
    tokens = sum(report["generated_tokens"] for report in later)
    steps = [report["step"] for report in reports]
    kl = [step["mismatch_kl"] for step in steps if step.get("mismatch_kl") is not None]
    third = max(1, len(reports) // 3)
    rewards = [report["reward"] or 0.0 for report in reports]
    return {
        "rounds": len(reports),
        "seconds": phases,
        "tokens_a_second": tokens / max(1e-9, phases.get("generate", 0.0) * len(later)),
        "reward_first": statistics.fmean(rewards[:third]),
        "reward_last": statistics.fmean(rewards[-third:]),
        "mismatch_kl": statistics.fmean(kl) if kl else None,
        "external": sum(report["external_informative"] for report in reports),
        "halvings": sum(step.get("halvings", 0) for step in steps),
    }


def node(quick: bool) -> Figures:
    """`doctor`; two nodes that share, one on the card and one on the CPU; then the default for 20
    rounds, a Ctrl-C, and three rounds more.
    """
    rounds, model, device = (2, "rare", "cpu") if quick else (15, "rare", DEVICE.type)
    found: Figures = {}
    with nodes() as made:
        made.start("doctor", "doctor", "--model.name", "rare")
        code = made.ended("doctor", DIAGNOSES)
        found["doctor"] = {"code": code, "says": made.said("doctor").splitlines()}
        made.start("bootstrap", "bootstrap", "--port", "0")

        def address() -> re.Match[str] | None:
            return ADDRESS.search(made.said("bootstrap"))

        peer = made.until(address, "bootstrap", "an address")[0]
        both = {"on_card": device, "on_cpu": "cpu"}
        for name, on in both.items():
            words = ("run", "--model.name", model, "--model.device", on, "--peers", peer)
            made.start(name, *words, "--max-rounds", str(rounds))
        for name in both:
            made.ended(name)
        found["sharing"] = {name: of_rounds(made.rounds(name)) for name in both}
        found["default"] = default_run(made, quick)
    return found


def default_run(made: Nodes, quick: bool) -> Figures:
    """A node by default, interrupted after its rounds, and resumed."""
    rounds, more = (2, 1) if quick else (20, 3)
    words = ("run", "--network.no-enabled", "--model.name", "rare" if quick else MODEL)
    began = time.monotonic()
    with Utilisation() as busy:
        made.start("default", *words, "--max-rounds", str(rounds + 1000))
        made.until(lambda: made.rounds("default"), "default", "a first round")
        start = time.monotonic() - began
        made.until(lambda: len(made.rounds("default")) >= rounds, "default", "the last round")
    os.kill(made.pid("default"), signal.SIGINT)
    code = made.ended("default", (0, 130))
    done = len(made.rounds("default"))
    made.start("default", *words, "--max-rounds", str(done + more))
    made.ended("default")
    return {
        **of_rounds(made.rounds("default")),
        "start_seconds": start,
        "utilisation": busy.mean,
        "interrupted": {"code": code, "rounds": done},
        "resumed": {"rounds": len(made.rounds("default")), "wanted": done + more},
    }


def rounding(quick: bool) -> Figures:
    """Whether bfloat16 costs learning: the same rounds with products in bfloat16 and in float32,
    and two seeds of each.
    """
    rounds, model = (2, "rare") if quick else (20, MODEL)
    found: Figures = {}
    with nodes() as made:
        for seed in range(1 if quick else 2):
            for dtype in ("auto", "float32"):
                name = f"{dtype}-{seed}"
                made.start(
                    name,
                    *("run", "--network.no-enabled", "--model.name", model, "--seed", str(seed)),
                    *("--model.dtype", dtype, "--max-rounds", str(rounds)),
                )
                made.ended(name)
                found[name] = of_rounds(made.rounds(name))
    return found


def asynchronous(quick: bool) -> Figures:
    """An asynchronous node on the one card, whose generator is killed once."""
    rounds, model = (3, "rare") if quick else (10, MODEL)
    with nodes() as made:
        made.start(
            "both",
            *("run", "--network.no-enabled", "--model.name", model, "--asynchronous.enabled"),
            *("--max-rounds", str(rounds)),
        )
        made.until(lambda: made.rounds("both"), "both", "a first round")
        killed = 0
        for child in psutil.Process(made.pid("both")).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "swarm_node.node.generator" in " ".join(child.cmdline()):
                    child.kill()
                    killed += 1
        made.ended("both")
        return {
            "killed": killed,
            "another": "another one goes on" in made.said("both"),
            **of_rounds(made.rounds("both")),
        }


def shaped(name: str, *, lora: bool, quick: bool, layers: int = 0) -> tuple[Policy, LearningConfig]:
    """A policy of this shape with random weights and the whole vocabulary, and its configuration:
    8 questions, 8 completions of 256 tokens.
    """
    config = LearningConfig(
        model=ModelConfig(lora_rank=16 if lora else 0),
        round=RoundConfig(questions=2 if quick else 8),
        generation=GenerationConfig(max_completion_length=8 if quick else 256),
        training=TrainingConfig(learning_rate=1e-6),
    )
    made = common.model(name, 1 if quick else layers)
    if lora:
        import peft

        wrapped = peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM")
        made = peft.get_peft_model(made, wrapped)
        # As a policy is loaded: the base in the device's type, adapters in float32
        for module_name, weight in made.named_parameters():
            if "lora_" not in module_name:
                weight.data = weight.data.to(weights_dtype(config.model, DEVICE))
    policy = Policy(
        made.to(DEVICE), common.tokenizer(), DEVICE, autocast_dtype(config.model, DEVICE)
    )
    return policy, config


def memory(quick: bool) -> Figures:
    """What fits on cards of 8, 12 and 16 GB: this card with so much of its memory, each in a
    process of its own.
    """
    found: Figures = {}
    for number, fit in enumerate(FITS[:1] if quick else FITS):
        words = [sys.executable, "-m", "lab.benchmarks.lease_parts", f"fit-{number}"]
        line = [*words, *["--quick"] * quick]
        done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=command.ROOT)
        last = (done.stdout.strip().splitlines() or ["{}"])[-1]
        name = f"{fit.gib} GB, {fit.model.rpartition('/')[2]}, {'LoRA' if fit.lora else 'full'}"
        said = (done.stderr.strip().splitlines() or [""])[-1]
        found[name] = json.loads(last) if not done.returncode else {"failed": said}
    return found


def fitting(fit: Fit, quick: bool) -> Figures:
    """One round of a model with a part of the card: the plan, the peak, and how often it had to do
    with less.
    """
    if CUDA:
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, fit.gib * GIB / total))
    policy, config = shaped(fit.model, lora=fit.lora, quick=quick)
    plan = memory_plan.plan_of(config, shapes()[fit.model], fit.gib * GIB)
    policy.checkpointing, policy.concurrent_tokens = (
        plan.choice.checkpointing,
        plan.choice.concurrent,
    )
    chosen = {"token_budget": plan.choice.budget}
    config = config.model_copy(update={"training": config.training.model_copy(update=chosen)})
    found: Figures = {"planned_gib": plan.total / GIB, "fits": plan.fits}
    generator, trainer = BatchGenerator(policy, config.generation), build_trainer(config, policy)
    prompts = common.prompts([60] * config.round.questions)
    for turn in range(2):
        began = time.monotonic()
        written = generator.generate(prompts, common.GROUP_SIZE, str(turn))
        middle = time.monotonic()
        groups = [common.scored(*pair) for pair in zip(prompts, written, strict=True)]
        report = trainer.update(groups)
        found |= {
            "decoder": generator.decoder_name,
            "replays": generator.replays,
            "halvings": report.halvings,
            "skipped": dict(report.skipped),
            "generation_seconds": middle - began,
            "update_seconds": time.monotonic() - middle,
        }
    if CUDA:
        found["peak_gib"] = torch.cuda.max_memory_allocated() / GIB
        found["reserved_gib"] = torch.cuda.max_memory_reserved() / GIB
        found["recording"] = shortage_in_a_recording()
        found["pinned_twice"] = pinned_twice()
    return found


def shortage_in_a_recording() -> Figures:
    """What torch says where memory runs out while a CUDA graph is recorded."""
    wanted = int(torch.cuda.mem_get_info()[1])  # the whole card, which has something on it
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.empty(wanted, dtype=torch.uint8, device="cuda")
    except Exception as error:  # noqa: BLE001  what it is is the question
        return {
            "says": f"{type(error).__name__}: {error}"[:300],
            "instead_of": type(error.__context__).__name__,
            "known": is_shortage(error),
        }
    return {"says": "nothing"}


def pinned_twice() -> Figures:
    """Whether memory that cannot be pinned, since it is, leaves an error for the next kernel."""
    memory_of_host = torch.zeros(2**20, dtype=torch.uint8)
    first, second = pin(memory_of_host), pin(memory_of_host)
    try:
        after = float(torch.ones(8, device="cuda").sum())
    except RuntimeError as error:
        return {"first": first, "second": second, "then": str(error)[:200]}
    return {"first": first, "second": second, "then": after}


def decoding(policy: Policy, questions: int, length: int) -> tuple[LlamaDecoder, Drawing, Slots]:
    """A decoder that has read its prompts, with room for so many tokens."""
    decoder = LlamaDecoder(policy)
    prompts = [[(7 * k + i) % 90 for i in range(60)] for k in range(questions)]
    drawing = Drawing(1.0, torch.tensor([-1], device=DEVICE), Astray(0.0))
    rows = questions * common.GROUP_SIZE
    with torch.no_grad():
        logits = decoder.prefill(prompts, common.GROUP_SIZE, length)
        at, _ = drawing(logits, uniform(1, rows)[0], Slots.start(rows, DEVICE))
        decoder.reserve(length)
    return decoder, drawing, at


def uniform(steps: int, rows: int) -> torch.Tensor:
    return torch.full((steps, rows), 0.5, dtype=torch.float64, device=DEVICE)


def replays(graph: "torch.cuda.CUDAGraph", count: int) -> None:
    """Plays a recording so many times."""
    for _ in range(count):
        graph.replay()


def waited(work: Callable[[], object]) -> float:
    """Seconds of a call, with all that it queued."""
    if CUDA:
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if CUDA:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def kernels(work: Callable[[], object]) -> Figures:
    """Kernels that a call starts, and how long the device computes."""
    kinds = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * CUDA]
    with profile(activities=kinds) as seen:
        seconds = waited(work)
    device = [event for event in seen.events() if "CUDA" in str(event.device_type)]
    busy = sum(event.time_range.elapsed_us() for event in device) / 1e6
    return {"kernels": len(device), "busy_seconds": busy, "seconds": seconds}


@torch.no_grad()
def step(quick: bool) -> Figures:
    """A decode step and an update of 0.5 B: kernels and gaps; the price of a recording; 64 against
    72 rows.
    """
    policy, config = shaped(HALF_B, lora=False, quick=quick)
    found: Figures = {
        f"{questions * common.GROUP_SIZE} rows": of_steps(policy, questions, 4 if quick else 64)
        for questions in ((1, 2) if quick else (8, 9, 16))
    }
    gc.collect()
    generator, trainer = BatchGenerator(policy, config.generation), build_trainer(config, policy)
    prompts = common.prompts([60] * config.round.questions)
    written = generator.generate(prompts, common.GROUP_SIZE, "s")
    groups = [common.scored(*pair) for pair in zip(prompts, written, strict=True)]
    with torch.enable_grad():
        trainer.update(groups)
        found["update"] = kernels(lambda: trainer.update(groups))
    return found


def of_steps(policy: Policy, questions: int, steps: int) -> Figures:
    """Milliseconds of a decode step, plain and replayed; what one does; what a recording takes."""
    decoder, drawing, at = decoding(policy, questions, 2 * steps + 8)
    rows, found = questions * common.GROUP_SIZE, Figures()
    works: dict[str, Any] = {"plain": block, **({"replayed": Graphs()} if CUDA else {})}
    for name, work in works.items():
        loads = partial(work, decoder, drawing, uniform(2, rows), at)
        waited(loads)  # and records
        seconds = waited(partial(work, decoder, drawing, uniform(steps, rows), at))
        found[f"{name}_ms_a_step"] = 1000 * seconds / steps
    found["one_step"] = kernels(partial(block, decoder, drawing, uniform(1, rows), at))
    if CUDA:
        one = uniform(1, rows)[0]
        found["recording_ms"] = 1000 * waited(partial(_Recorded, decoder, drawing, one, at))
        found["empty_cache_ms"] = 1000 * waited(torch.cuda.empty_cache)
    return found


@torch.no_grad()
def compiled(quick: bool) -> Figures:
    """The step compiled by torch.compile, inside a recording where there is a card."""
    policy, _ = shaped(HALF_B, lora=False, quick=quick)
    steps, questions = (4, 1) if quick else (64, 8)
    rows, found = questions * common.GROUP_SIZE, Figures()
    decoder, drawing, at = decoding(policy, questions, 3 * steps + 8)
    one = uniform(1, rows)[0]
    plain = waited(lambda: block(decoder, drawing, uniform(steps, rows), at))
    found["plain_ms_a_step"] = 1000 * plain / steps
    backend = "eager" if quick else "inductor"
    fast = torch.compile(block, fullgraph=True, dynamic=False, backend=backend)
    found["compile_seconds"] = waited(lambda: fast(decoder, drawing, one[None], at))
    found["compiled_ms_a_step"] = 1000 * waited(lambda: fast(decoder, drawing, one[None], at))
    if CUDA:
        for name, work in (("replayed", block), ("compiled_replayed", fast)):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                work(decoder, drawing, one[None], at)
            graph.replay()
            seconds = waited(partial(replays, graph, steps))
            found[f"{name}_ms_a_step"] = 1000 * seconds / steps
    return found


PARTS: dict[str, Part] = {
    "machine": machine,
    "node": node,
    "rounding": rounding,
    "memory": memory,
    "step": step,
    "compiled": compiled,
    "asynchronous": asynchronous,
    **{f"fit-{k}": partial(fitting, fit) for k, fit in enumerate(FITS)},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.lease_parts", description=__doc__
    )
    parser.add_argument("part", choices=PARTS)
    command.add_quick(parser)
    arguments = parser.parse_args()
    found = PARTS[arguments.part](arguments.quick or not CUDA)
    print(json.dumps(found, default=str), flush=True)


if __name__ == "__main__":
    main()
