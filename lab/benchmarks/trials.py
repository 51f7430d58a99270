"""What it costs to find out how a model can be decoded and packed here, and what it costs when that is known.

    python -m lab.benchmarks.trials --json        # docs/results/at_home.md

Models have the shapes of real ones, and weights by chance. Reading and making them is not counted.
"""

import tempfile
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from lab.benchmarks import command, common
from lab.benchmarks.shapes import shapes
from swarm_node.generation.generator import choose_decoder
from swarm_node.policy.policy import Policy
from swarm_node.policy.tried import FILE, Tried

MODELS = ("HuggingFaceTB/SmolLM2-135M-Instruct", "Qwen/Qwen2.5-0.5B-Instruct")
STARTS = ("first", "second")


def main() -> None:
    parser = command.parser("lab.benchmarks.trials", __doc__)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=list(shapes()))
    options = parser.parse_args()
    found = {name: measured(name) for name in options.models}
    lines = [
        [name.rpartition("/")[2], start, f"{took['cpu']:.1f}", f"{took['seconds']:.1f}"]
        for name, starts in found.items()
        for start, took in starts.items()
    ]
    command.show(["model", "start", "CPU s", "s"], lines)
    command.finish(options, {"models": found, **command.versions("torch", "transformers")})


def measured(name: str) -> dict[str, dict[str, float]]:
    """CPU and wall-clock seconds of each start."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(shapes()[name])
    found = {}
    with tempfile.TemporaryDirectory() as home:
        for start in STARTS:
            cpu, began = time.process_time(), time.monotonic()
            policy = Policy(model, common.tokenizer(), torch.device("cpu"), name=name, tried=Tried(Path(home, FILE)))
            chosen = (choose_decoder(policy, "auto").__name__, policy.packing, policy._head is None)
            found[start] = {"cpu": time.process_time() - cpu, "seconds": time.monotonic() - began}
            print(f"{name}, {start} start: {chosen}", flush=True)
    return found


if __name__ == "__main__":
    main()
