"""Which tasks of reasoning-gym a pre-trained model answers now and then, before any training.

    python -m lab.benchmarks.answerable --out docs/results/real_models

Each task gets 8 held-out questions with shots and 8 completions of each, which end with their line. A task is worth
training on where some completions are right and some are wrong: `informative` is the share of such groups. Tasks with
long prompts are left out. What was measured is kept, so an interrupted run goes on.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from lab.benchmarks import command
from protocol.messages import Question, Round
from swarm_node.environments.kinds import EVALUATION
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.reasoning_gym.environment import ReasoningGym
from swarm_node.environments.scored import Answers
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Frame, Policy
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings import GenerationConfig, ModelConfig

LEVELS = ("tiny", "easy")
PROMPT_TOKENS = 320
QUESTIONS = COMPLETIONS = 8
GENERATION = GenerationConfig(num_generations=COMPLETIONS, max_completion_length=16, stop=("\n",))


def measured(
    task: str, asked: Sequence[Question], environment: ReasoningGym, policy: Policy, generator: BatchGenerator
) -> dict[str, Any]:
    """Accuracy and informative groups of one task, or why it is left out."""
    began = time.process_time()
    prompts = environment.prompts(asked)
    for prompt in prompts:
        if isinstance(prompt, Skipped):
            return {"task": task, "left_out": prompt.reason}
    texts = [str(prompt) for prompt in prompts]
    tokens = max(len(policy.encode_prompt(text)) for text in texts)
    if tokens > PROMPT_TOKENS:
        return {"task": task, "left_out": "long prompt", "prompt_tokens": tokens}
    groups = generator.generate(texts, COMPLETIONS, task)
    written = [() if isinstance(each, Skipped) else tuple(c.text for c in each.completions) for each in groups]
    rewards = [each for each in environment.score(list(zip(asked, written, strict=True))) if isinstance(each, tuple)]
    every = [reward for group in rewards for reward in group]
    return {
        "task": task,
        "accuracy": sum(every) / max(1, len(every)),
        "completions": len(every),
        "informative": sum(len(set(group)) > 1 for group in rewards) / max(1, len(rewards)),
        "prompt_tokens": tokens,
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = command.parser("lab.benchmarks.answerable", __doc__)
    command.add_runs(parser)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--shots", type=int, default=4)
    parser.add_argument(
        "--tasks", nargs="+", default=[f"{n}/{c}" for n in CATALOGUE for c in LEVELS if c in CATALOGUE[n]]
    )
    options = parser.parse_args()
    policy = load_policy(ModelConfig(name=options.model))
    policy.frame = Frame(chat=False)  # shots are a text to go on with: as a turn of a chat they are talked about
    generator = BatchGenerator(policy, GENERATION)
    environment = ReasoningGym(options.tasks, answers=Answers(shots=options.shots))
    asked = [environment.sample(EVALUATION, Round(now), len(options.tasks)) for now in range(QUESTIONS)]
    found = []
    for task, questions in zip(options.tasks, zip(*asked, strict=True), strict=True):
        file = options.runs / f"{options.model}-{options.shots}" / f"{task.replace('/', '-')}.json"
        found.append(command.kept(file, partial(measured, task, questions, environment, policy, generator)))
        print(found[-1], flush=True)
    environment.close()
    answered = sorted((each for each in found if "accuracy" in each), key=lambda each: -each["accuracy"])
    command.show(
        ("task", "accuracy", "informative", "prompt tokens"),
        [(e["task"], f"{e['accuracy']:.2f}", f"{e['informative']:.2f}", str(e["prompt_tokens"])) for e in answered],
    )
    settings = {"model": options.model, "shots": options.shots, **command.versions("torch", "transformers")}
    command.finish(options, {"tasks": found, "settings": settings})


if __name__ == "__main__":
    main()
