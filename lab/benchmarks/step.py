"""One whole GRPO step beside TRL's GRPOTrainer: generate, reward, advantage, loss, backward, clip,
AdamW.

All sides have the same model, prompts, reward, loss type, clip range and token counts. TRL's
training loop cannot be called step by step, so our steps run in its end-of-step callback: TRL's
time is from the end of ours to its next callback. All sides take turns in one process. TRL is set
up to be fast: one batch, no gradient checkpointing, no logs.
"""

import contextlib
import io
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import PrinterCallback, TrainerCallback

from lab.benchmarks import command, common
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.policy import Policy
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer

Work = Callable[[], object]

AS_OURS: Mapping[str, Any] = {
    "loss_type": "grpo", "epsilon": 0.2, "epsilon_high": 0.28, "beta": 0.0,
    "lr_scheduler_type": "constant", "use_cpu": True, "gradient_checkpointing": False,
    "shuffle_dataset": False,
}  # fmt: skip
# Whether rows are padded, and the type of products
SIDES: Mapping[str, tuple[bool, torch.dtype | None]] = {
    "padded float32": (True, None),
    "packed float32": (False, None),
    "packed bfloat16": (False, torch.bfloat16),
}
HEADLINE = "packed float32"
REFERENCE = "TRL float32"


def our_step(
    size: str, load: common.Workload, autocast: torch.dtype | None, padded: bool = False
) -> Work:
    """A step of this node's generator and trainer on a model of its own."""
    policy = Policy(common.model(size), common.tokenizer(size), torch.device("cpu"), autocast)
    generation = GenerationConfig(
        num_generations=common.GROUP_SIZE, max_completion_length=load.new_tokens
    )
    generator = BatchGenerator(policy, generation)
    trainer = GrpoTrainer(
        policy, TrainingConfig(learning_rate=common.RATE), generation, padded=padded
    )
    texts, streams = common.prompts(load.prompt_lengths), count()

    def step() -> None:
        with record_function("generation"):
            generated = generator.generate(texts, common.GROUP_SIZE, f"benchmark/{next(streams)}")
        with record_function("update"):
            report = trainer.update(
                [common.scored(*each) for each in zip(texts, generated, strict=True)]
            )
        assert (report.optimizer_steps, report.trained_tokens, not trainer.packing) == (
            1,
            load.tokens,
            padded,
        ), report

    return step


class Turns(TrainerCallback):
    """Measures TRL's steps, and between them runs and measures `others`; the first turn warms up
    and is dropped.
    """

    def __init__(self, others: Mapping[str, Work], name: str, label: str, repetitions: int) -> None:
        self.others, self.name, self.label, self.repetitions = others, name, label, repetitions
        self.taken: dict[str, list[float]] = {name: [], **{other: [] for other in others}}
        self.started = time.process_time()

    def on_step_end(self, *_args: Any, **_kwargs: Any) -> None:
        self.taken[self.name].append(time.process_time() - self.started)
        for name, work in self.others.items():
            self.taken[name].append(common.cpu_seconds(work))
        turn = len(self.taken[self.name]) - 1
        if turn:
            latest = {name: seconds[-1] for name, seconds in self.taken.items()}
            common.progress(self.label, turn - 1, self.repetitions, latest)
        self.started = time.process_time()

    def spreads(self) -> dict[str, common.Spread]:
        return {name: common.Spread(tuple(seconds[1:])) for name, seconds in self.taken.items()}


def measure_with_trl(
    size: str,
    load: common.Workload,
    name: str,
    others: Mapping[str, Work],
    low: bool,
    how: Mapping[str, Any] = AS_OURS,
) -> dict[str, common.Spread]:
    """Measures TRL's step, with settings `how` in bfloat16 (`low`) or float32, in turn with
    `others`.
    """
    turns = Turns(others, name, size, load.repetitions)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()):
            ours = common.model(size), common.tokenizer(size)
            trainer = common.trl_trainer(*ours, load, folder, turns, **how, bf16=low)
        trainer.remove_callback(PrinterCallback)
        turns.started = time.process_time()
        trainer.train()
    lengths = {
        entry[f"completions/{m}_length"]
        for entry in trainer.state.log_history[-1:]
        for m in ("min", "max")
    }
    assert lengths == {load.new_tokens}, lengths
    return turns.spreads()


def measure(size: str, load: common.Workload) -> dict[str, Any]:
    """All sides for one model size, relative to TRL in float32; TRL in bfloat16 takes turns with
    our bfloat16.
    """
    works = {
        name: our_step(size, load, autocast, padded) for name, (padded, autocast) in SIDES.items()
    }
    sides = common.compared(
        measure_with_trl(size, load, REFERENCE, works, low=False), REFERENCE, load.tokens
    )
    packed = {"packed bfloat16": works["packed bfloat16"]}
    found = measure_with_trl(size, load, "TRL bfloat16", packed, low=True)
    in_bfloat16 = common.compared(found, "TRL bfloat16", load.tokens)
    return {"reference": REFERENCE, "sides": sides, "against_trl_bfloat16": in_bfloat16}


def traced(load: common.Workload, file: Path) -> dict[str, Any]:
    """Profiles our second step: writes a trace that ui.perfetto.dev opens, prints the operators
    with the largest shares of CPU time, and draws beside the trace when the first ten of them ran.
    """
    step = our_step(load.sizes[-1], load, None)
    step()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        step()
    found.export_chrome_trace(str(file))
    rows = sorted(found.key_averages(), key=lambda row: -row.self_cpu_time_total)
    total = sum(row.self_cpu_time_total for row in rows)
    share = {row.key: row.self_cpu_time_total / total for row in rows[:20]}
    command.show(["operator", "share"], [[name, f"{part:.1%}"] for name, part in share.items()])
    figure, events = (
        Figure((9, 4.5), layout="constrained"),
        json.loads(file.read_text())["traceEvents"],
    )
    axes, shown = (
        figure.add_subplot(),
        ["generation", "update", *[name for name in share if "::" in name][:10]],
    )
    start = min(each["ts"] for each in events if each.get("name") in shown)
    for number, name in enumerate(shown):
        spans = [
            ((each["ts"] - start) / 1e6, each["dur"] / 1e6)
            for each in events
            if each.get("name") == name
        ]
        axes.broken_barh(spans, (number - 0.4, 0.8), color="C0" if "::" in name else "C1")
    labels = [
        f"{name.split('::')[1][:32]}  {share[name]:.0%}" if "::" in name else name for name in shown
    ]
    axes.set(xlabel="seconds", yticks=range(len(shown)), yticklabels=labels, ylim=(len(shown), -1))
    figure.savefig(file.with_suffix(".png"), dpi=120)
    return {"trace": str(file), "share": share}


def main() -> None:
    parser = common.parser("lab.benchmarks.step", __doc__, "tiny", "1M", "10M")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="only one step of ours: a trace for Perfetto"
    )
    arguments = parser.parse_args()
    common.settle()
    load = common.workload(arguments)
    if arguments.trace:
        return command.finish(arguments, traced(load, arguments.trace))
    results = {size: measure(size, load) for size in load.sizes}
    lines = []
    for size, result in results.items():
        lines += common.side_lines(size, result["sides"])
        lines += common.side_lines(
            f"{size} (ratio to TRL bfloat16)", result["against_trl_bfloat16"]
        )
    command.show(common.SIDE_HEADER, lines)
    last = results[load.sizes[-1]]["sides"]
    result = {
        "ratio": last[HEADLINE]["ratio"]["median"],
        "ours": {"name": HEADLINE, **last[HEADLINE]},
        "theirs": {"name": REFERENCE, **last[REFERENCE]},
        "sizes": results,
        "settings": {**common.settings(load), **command.versions("trl")},
    }
    command.finish(arguments, result)


if __name__ == "__main__":
    main()
