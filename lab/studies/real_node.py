"""Rounds of a real node with a model of Qwen2.5-0.5B's shape: what its training process takes at its peak.

    python -m lab.studies.real_node --runs runs/real_node      # docs/results/memory_plan.md

Weights are random, in float32, with AdamW in 8 bits; the model favours digits, so that some of its completions are
right. A round asks two questions, with eight completions of 64 tokens each. The node shares with one that trains the
starter `rare`, stops, resumes, and is exported; transformers opens the folder in a fresh process. About half an hour
on two cores.
"""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lab.benchmarks import command
from lab.benchmarks.resident import resident
from lab.benchmarks.shapes import shapes
from lab.studies import guests
from swarm_node import starters

SHAPE = "Qwen/Qwen2.5-0.5B-Instruct"
LOOK_SECONDS = 0.5
LIMIT_MEGABYTES = 6600  # the plan leaves 8 % of it free
LIMIT_MEBIBYTES = 6.5e9 / 2**20
OPENED = (
    "import sys, transformers as t; m = t.AutoModelForCausalLM.from_pretrained(sys.argv[1]); print(m.num_parameters())"
)


def make_model(folder: Path, layers: int | None) -> Path:
    """Random weights with a starter's tokenizer. Every token carries one direction; digits and the end carry more of
    it, so that they are sampled most, with input and output embeddings tied as in the original."""
    if (folder / "config.json").exists():
        return folder
    torch.manual_seed(0)
    config = shapes()[SHAPE]
    if layers:
        config.num_hidden_layers, config.layer_types = layers, config.layer_types[:layers]
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(starters.folder("rare"))
    favoured = [*tokenizer.convert_tokens_to_ids(list("123456789")), tokenizer.eos_token_id]
    direction = torch.nn.functional.normalize(torch.randn(config.hidden_size), dim=0)
    with torch.no_grad():
        embedding = model.get_input_embeddings().weight
        embedding.normal_(0.0, 0.02).add_(direction, alpha=10.0)
        embedding[favoured] += 12.5 / config.hidden_size**0.5 * direction
        for name, weight in model.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                weight.mul_(0.05)  # what blocks add must not hide the direction
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


@contextmanager
def peak(process: "subprocess.Popen[bytes]") -> Iterator[dict[str, float]]:
    """The largest resident memory of the process so far, in MiB, under "mebibytes", as the kernel counts it."""
    found, over = {"mebibytes": 0.0}, threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            try:
                found["mebibytes"] = resident("VmHWM", process.pid)
            except (OSError, StopIteration):
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def run(home: Path, model: Path, rounds: int, peer: str, quick: bool) -> dict[str, Any]:
    """The node until it has ended this many rounds in all. RuntimeError where it ends otherwise."""
    before = len(guests.reports(home)) if (home / "events.jsonl").exists() else 0
    size = ("--generation.num-generations", 8, "--generation.max-completion-length", 8 if quick else 64)
    asked = ("--round.questions", 2, "--round.local-groups", 2, "--round.external-groups", 2)
    limit = ("--limits.memory", LIMIT_MEGABYTES)
    how = ("--model.dtype", "float32", "--training.optimizer", "adamw_8bit", "--training.learning-rate", "1e-6")
    line = [
        "-m",
        "swarm_node.commands.cli",
        "run",
        "--home",
        home,
        "--model.name",
        model,
        "--peers",
        peer,
        "--max-rounds",
        rounds,
    ]
    began = monotonic()
    with (
        guests.running([*line, *size, *asked, *how, *limit, *guests.tasks(), *guests.HERE], home) as process,
        peak(process) as most,
    ):
        code = process.wait()
    if code:
        raise RuntimeError(guests.log(home).read_text()[-2000:])
    reports = guests.reports(home)[before:]
    phases = [report["seconds"] for report in reports]
    return {
        "peak_mebibytes": most["mebibytes"],
        "seconds": monotonic() - began,
        "rounds": len(reports),
        "round_seconds": [sum(each.values()) for each in phases],
        "external_trained": sum(
            count.get("trained", 0) for report in reports for count in report.get("external_by_peer", {}).values()
        ),
    }


def exported(home: Path, folder: Path) -> dict[str, Any]:
    """`export`, and what transformers says of the folder in a fresh process."""
    began = monotonic()
    line = [sys.executable, "-m", "swarm_node.commands.cli", "export", str(folder), "--home", str(home)]
    with subprocess.Popen(line, cwd=guests.ROOT) as process, peak(process) as most:
        code = process.wait()
    if code:
        raise RuntimeError(f"export ended with {code}")
    opened = subprocess.run([sys.executable, "-c", OPENED, str(folder)], capture_output=True, text=True, check=True)
    return {
        "peak_mebibytes": most["mebibytes"],
        "seconds": monotonic() - began,
        "parameters": int(opened.stdout.split()[-1]),
    }


def measured(folder: Path, rounds: int, quick: bool) -> dict[str, Any]:
    model = make_model(folder / "model", 2 if quick else None)
    home, other = folder / "real", folder / "rare"
    for left in (home, other, folder / "exported"):  # of a run that was interrupted
        shutil.rmtree(left, ignore_errors=True)
    with guests.running(guests.node(other, model="rare"), other):
        peer = guests.address(other)
        first = run(home, model, rounds, peer, quick)
        resumed = run(home, model, rounds + 1, peer, quick)
        gave = guests.peer_id(home) in guests.trained_on(other)
    return {"first": first, "resumed": resumed, "gave": gave, "export": exported(home, folder / "exported")}


def main() -> None:
    parser = command.parser("lab.studies.real_node", __doc__)
    command.add_quick(parser)
    command.add_runs(parser)
    parser.add_argument("--rounds", type=int, default=3, help="before it is stopped and resumed for one more (3)")
    options = parser.parse_args()
    folder = options.runs / ("quick" if options.quick else "whole")
    folder.mkdir(parents=True, exist_ok=True)
    found = command.kept(folder / "real_node.json", lambda: measured(folder, options.rounds, options.quick))
    lines = [
        [name, f"{part['peak_mebibytes']:.0f}", f"{part['seconds']:.0f}"]
        for name, part in found.items()
        if isinstance(part, dict)
    ]
    command.show(["", "peak MiB", "seconds"], lines)
    took = found["first"]["external_trained"] + found["resumed"]["external_trained"]
    print(f"\nexternal groups it trained on: {took}; the other node trained on its groups: {found['gave']}")
    highest = max(found[name]["peak_mebibytes"] for name in ("first", "resumed"))
    command.finish(options, {"ratio": highest / LIMIT_MEBIBYTES, **found})


if __name__ == "__main__":
    main()
