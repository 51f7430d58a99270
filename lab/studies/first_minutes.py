"""How long one node alone takes to learn each task of `basics` with a pre-trained model.

    python -m lab.studies.first_minutes --json

Each task is learned by itself, from the same weights: LoRA of rank 16, rate 2e-4, 8 questions of 8 completions a round.
Every few rounds it answers 64 held-out questions, the same ones each time, until 0.9 of the answers are right. What a
task came to is kept, and a task that was interrupted begins again. CPU seconds are of one thread, without the held-out
questions; a machine with other work to do stretches them by what its caches lose.
"""

import argparse
import time
from functools import partial
from typing import Any

from lab.benchmarks import command
from protocol.messages import PeerId, Round
from swarm_node.environments.kinds import EVALUATION
from swarm_node.environments.registry import build_environment
from swarm_node.extensions.basics.source import TASKS
from swarm_node.network.in_memory import Alone
from swarm_node.node.evaluation import answer
from swarm_node.node.learner import build_node
from swarm_node.settings import LearningConfig
from swarm_node.settings.model import NO_TEMPLATE

LEARNED = 0.9
QUESTIONS = 64  # held-out ones


def configured(task: str, model: str) -> LearningConfig:
    options = {
        "model": {"name": model, "lora_rank": 16, "template_arguments": NO_TEMPLATE},
        "generation": {"max_completion_length": 16, "stop": ["\n"]},
        "environment": {"tasks": [f"{task}/few"]},
        "round": {"questions": 8},
        "training": {"learning_rate": 2e-4},
    }
    return LearningConfig.model_validate({**options, "threads": 1})


def learned(task: str, options: argparse.Namespace) -> dict[str, Any]:
    """Held-out accuracy by rounds, and the rounds and CPU seconds until it was high enough, or the last."""
    config, seconds = configured(task, options.model), 0.0
    environment = build_environment(config)
    try:
        node = build_node(config, PeerId("alone"), environment, Alone())
        held_out = environment.sample(EVALUATION, Round(0), QUESTIONS)
        accuracy: dict[int, float] = {}
        for now in range(options.rounds + 1):
            if now % options.every == 0:
                scores = answer(node.generator, environment, held_out, "held out").scores
                accuracy[now] = sum(score or 0.0 for score in scores) / len(scores)
                print(f"{task} {now:3} rounds {seconds:5.0f} CPU s {accuracy[now]:.2f}", flush=True)
                if accuracy[now] >= LEARNED:
                    break
            began = time.process_time()
            node.run_round(Round(now))
            seconds += time.process_time() - began
    finally:
        environment.close()
    return {"task": task, "accuracy": accuracy, "rounds": now, "cpu_seconds": round(seconds)}


def main() -> None:
    parser = command.parser("lab.studies.first_minutes", __doc__)
    command.add_runs(parser)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rounds", type=int, default=20, help="of a task at most (20)")
    parser.add_argument("--every", type=int, default=5, help="rounds between held-out questions (5)")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    options = parser.parse_args()
    name = f"{options.model}-{options.rounds}-{options.every}"
    found = [
        command.kept(options.runs / name / f"{task}.json", partial(learned, task, options)) for task in options.tasks
    ]
    lines = []
    for each in found:
        first, *_, last = [*each["accuracy"].values()] * 2
        reached = last >= LEARNED
        until = [str(each["rounds"]), str(each["cpu_seconds"])] if reached else ["-", "-"]
        lines.append([each["task"], f"{first:.2f}", f"{last:.2f}", *until])
    command.show(("task", "before", "after", "rounds", "CPU s"), lines)
    settings = {"rounds": options.rounds, "every": options.every, **command.versions("torch", "transformers")}
    command.finish(options, {"tasks": found, "settings": settings})


if __name__ == "__main__":
    main()
