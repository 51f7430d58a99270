"""A round of the first minute beside the same round of an earlier commit: the share of its CPU time that is left.

SmolLM2-135M with LoRA, 8 questions of `basics` with 4 shots, 8 completions of 6 tokens each, all of them trained on.
Each side is a process with the code of its commit and one thread. Rounds take turns, and each side is first as often.
"""

import json
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from lab.benchmarks import command

BEFORE = "4685feec"  # the last commit in which prompts shared nothing
TASKS = {"one task": ["second"], "four tasks": ["second", "last", "larger", "add_digits"]}


def prompts_of(tasks: list[str]) -> list[str]:
    """Of as many questions as a round has, behind their shots."""
    from protocol.messages import PeerId, Round
    from swarm_node.extensions.basics.environment import KIND
    from swarm_node.settings import LearningConfig

    with closing(KIND.start([f"{task}/few" for task in tasks], LearningConfig())) as environment:
        return list(map(str, environment.prompts(environment.sample(PeerId("somebody"), Round(0), 8))))


def serve(prompts: list[str]) -> None:
    """A round for each line that is read."""
    from lab.benchmarks import common, real
    from swarm_node.generation.generator import BatchGenerator
    from swarm_node.policy.loading import load_policy
    from swarm_node.policy.models import source
    from swarm_node.settings import GenerationConfig, ModelConfig, TrainingConfig
    from swarm_node.training.trainer import GrpoTrainer

    common.settle()
    policy = load_policy(ModelConfig(name=source("smollm2-135m"), lora_rank=16, device="cpu"))
    policy.tokenizer.chat_template = None
    generation = GenerationConfig(num_generations=common.GROUP_SIZE, max_completion_length=6)
    generator, trainer = (
        BatchGenerator(policy, generation),
        GrpoTrainer(policy, TrainingConfig(learning_rate=2e-4), generation),
    )
    for line in sys.stdin:
        start = time.process_time()
        found = generator.generate(prompts, common.GROUP_SIZE, line)
        generated = time.process_time()
        report = trainer.update([real.scored(prompt, made) for prompt, made in zip(prompts, found, strict=True)])
        seconds = {"generation": generated - start, "update": time.process_time() - generated}
        print(json.dumps({**seconds, "round": sum(seconds.values()), "mismatch": report.mismatch_max}), flush=True)


def measure(prompts: list[str], folders: list[Path], repetitions: int) -> list[dict[str, float]]:
    """Of each folder the medians of all rounds but the first, which warms up."""
    arguments = [sys.executable, "-m", "lab.benchmarks.first_minute", "--serve", *prompts]
    started = [subprocess.Popen(arguments, cwd=at, stdin=-1, stdout=-1, text=True) for at in folders]
    found: list[list[dict[str, float]]] = [[] for _ in folders]
    for number in range(repetitions + 1):
        for side in range(len(folders))[:: 1 if number % 2 else -1]:
            put, got = started[side].stdin, started[side].stdout
            assert put is not None and got is not None
            print(f"round {number}", file=put, flush=True)
            found[side].append(json.loads(got.readline()))
            print(("before", "now")[side], found[side][-1], flush=True)
    for process in started:
        process.communicate()
    return [{part: median(each[part] for each in rounds[1:]) for part in rounds[0]} for rounds in found]


def main() -> None:
    parser = command.parser("lab.benchmarks.first_minute", __doc__)
    command.add_repetitions(parser)
    parser.add_argument("--before", default=BEFORE, help=f"the earlier commit ({BEFORE})")
    parser.add_argument("--serve", nargs="+", help="used by this command itself")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", arguments.before], cwd=command.ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
        Path(folder, "lab/benchmarks/first_minute.py").write_text(Path(__file__).read_text())
        for name, tasks in TASKS.items():
            before, now = measure(prompts_of(tasks), [Path(folder), command.ROOT], arguments.repetitions or 5)
            results[name] = {"ratio": now["round"] / before["round"], "before": before, "now": now}
    ratio = max(result["ratio"] for result in results.values())
    command.finish(arguments, {"ratio": ratio, "demand": 0.6, "tasks": results, "settings": command.versions("torch")})


if __name__ == "__main__":
    main()
