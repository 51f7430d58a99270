"""Every check that needs a GPU ("card"), one command after the other, in ten minutes. Run this
first on a new card.

Each part is a command of its own. A part that fails, or takes more than three times its share of
the time left, does not stop the others. The table says how each part ended. Without a card, parts
that need one say so, and others run.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

from lab.benchmarks import command

SECONDS, PATIENCE = 600.0, 3600.0  # for all parts: with a card, and without one
VLLM = "vLLM with weight updates"  # in an environment of its own
WITHOUT = ("lab.benchmarks.", "tests.pretend")  # modules that a CPU runs, too, with --quick
PARTS = {
    "the code of a card on the pretend device": "-m tests.pretend",
    "tests: CUDA, graphs, FP8": "-m pytest -n 0 -q -m gpu tests",
    "FP8 kernels": "-m lab.benchmarks.fp8_gpu --json",
    "memory plans against truth, 0.5 to 3 B": "-m lab.benchmarks.memory_plan --trace --gpu --json",
    "generation beside HF, with CUDA graphs": "-m lab.benchmarks.generation --gpu --json",
    "updates and rounds beside TRL": "-m lab.benchmarks.real --gpu --json",
    VLLM: "-m pytest -n 0 -q tests/core/generation/test_vllm_generator.py",
    "SAPO of Qwen2.5-0.5B's shape": "-m lab.studies.sapo_on_a_card --rounds 2",
    "image with CUDA": "docker run --rm --gpus all swarm-node:cuda run --max-rounds 2",
}


def run(words: Sequence[str], python: str, seconds: float) -> dict[str, Any]:
    """Runs one part. Returns how it ended, and its last line, parsed if it is JSON."""
    line = list(words) if words[0] == "docker" else [python, *words]
    if shutil.which(line[0]) is None:
        return {"status": f"needs {line[0]}", "result": ""}
    try:
        done = subprocess.run(
            line, stdout=subprocess.PIPE, text=True, check=False, cwd=command.ROOT, timeout=seconds
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace").strip()
        print(said, flush=True)
        return {"status": "out of time", "result": said.rpartition("\n")[2]}
    print(done.stdout, flush=True)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    result = json.loads(last) if last.startswith("{") else last
    return {
        "status": "done" if not done.returncode else f"failed ({done.returncode})",
        "result": result,
    }


def headline(result: Any) -> str:
    """The figure of a part for the table."""
    if not isinstance(result, dict):
        return str(result)[:60]
    if "ratio" in result:
        return f"ratio {result['ratio']:.2f}"
    failed = [name for name, each in result.items() if isinstance(each, dict) and "failed" in each]
    return f"{len(result)} figures" + (f", failed: {', '.join(failed)}" if failed else "")


def main() -> None:
    parser = command.parser("lab.benchmarks.card", __doc__)
    parser.add_argument("--vllm-python", default="", help="Python of an environment with vLLM")
    arguments = parser.parse_args()
    card = torch.cuda.is_available()
    end = time.monotonic() + (SECONDS if card else PATIENCE)
    found, lines = {}, []
    for number, (name, written) in enumerate(PARTS.items()):
        began, words = time.monotonic(), written.split()
        if not card:
            words = (
                [*(w for w in words if w != "--gpu"), "--quick"]
                if words[1].startswith(WITHOUT)
                else []
            )
        python = arguments.vllm_python if name == VLLM else sys.executable
        if words and python:
            print(f"--- {name}: {' '.join(words)}", flush=True)
            made = run(words, python, max(10.0, 3 * (end - began) / (len(PARTS) - number)))
        else:
            made = {"status": "needs --vllm-python" if card else "needs a card", "result": ""}
        found[name] = made
        lines.append(
            [name, made["status"], headline(made["result"]), f"{time.monotonic() - began:.0f}"]
        )
    command.show(("part", "status", "figure", "seconds"), lines)
    device = torch.cuda.get_device_name() if card else "none"
    command.finish(
        arguments,
        {"parts": found, "card": device, "settings": command.versions("torch", "transformers")},
    )


if __name__ == "__main__":
    main()
