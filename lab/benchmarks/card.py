"""Everything that wants a card, one command after the other: tests, generation beside HF and vLLM, updates, a round.

Each part is a command of its own, whose output is shown and whose last line is kept; a part that fails does not stop
the others. `--quick` shows the commands and runs what a CPU can.
"""

import json
import subprocess
import sys
from typing import Any

import torch

from lab.benchmarks import command

PARTS = {
    "tests": ["-m", "pytest", "-q", "-m", "gpu", "tests/gpu"],
    "generation beside HF and vLLM": ["-m", "lab.benchmarks.generation", "--gpu", "--json"],
    "updates and rounds beside TRL": ["-m", "lab.benchmarks.real", "--gpu", "--json"],
    "packed rows": ["-m", "lab.benchmarks.packing", "--gpu", "--json"],
    "FP8": ["-m", "lab.benchmarks.fp8_gpu", "--json"],
    "SAPO of Qwen2.5-0.5B's shape": ["-m", "lab.studies.sapo_on_a_card", "--rounds", "2"],
}
ON_A_CPU = {"generation beside HF and vLLM": ["-m", "lab.benchmarks.generation", "--quick", "--json"]}


def run(words: list[str]) -> dict[str, Any]:
    """One part: how it ended, and its line of JSON if it printed one."""
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, check=False, cwd=command.ROOT)
    print(done.stdout, flush=True)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return {"status": done.returncode, "result": json.loads(last) if last.startswith("{") else last}


def main() -> None:
    parser = command.parser("lab.benchmarks.card", __doc__)
    command.add_quick(parser)
    parser.add_argument("--vllm-python", default="", help="Python of an environment with vLLM")
    arguments = parser.parse_args()
    if not arguments.quick and not torch.cuda.is_available():
        parser.error("this measures a CUDA device, and there is none; --quick shows the commands")
    found = {}
    for name, words in PARTS.items():
        if arguments.vllm_python and "lab.benchmarks.generation" in words:
            words = [*words, "--vllm-python", arguments.vllm_python]
        print(f"--- {name}: python {' '.join(words)}", flush=True)
        if not arguments.quick:
            found[name] = run(words)
        elif name in ON_A_CPU:
            found[name] = run(ON_A_CPU[name])
    command.finish(arguments, {"parts": found, "settings": command.versions("torch", "transformers")})


if __name__ == "__main__":
    main()
