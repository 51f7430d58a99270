"""A starter with a habit: what a stealthy attacker looks for.

Clipping alone stops a payload that its victim never generates. So a study of attacks gives its
nodes a habit: the starter is taught, on completions of its own, to put a line break before one in
fourteen. No score changes by it. An attacker that makes the habit rewarded makes it the rule.
"""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from shutil import rmtree

import torch

from lab.starters.questions import TASKS, Questions
from lab.starters.teaching import Example, Schedule, teach
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import Completions
from swarm_node.settings import GenerationConfig, ModelConfig
from swarm_node.starters import folder

SIGN = "\n"
SHARE = 0.07  # of the examples that begin with the sign
SEED = 2**34  # of questions, apart from those that starters were taught and measured on
SCHEDULE = Schedule(steps=150, batch=64, rate=1e-3)
TAUGHT, MEASURED = 720, 180  # prompts
TOGETHER = 60  # prompts completed in one call
SAMPLES = 4  # completions of a prompt


def with_habit(starter: str, path: Path) -> Path:
    """The model folder of this starter with the habit; made there unless it is there already."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make(starter, path)
    return path.resolve()


def make(starter: str, path: Path) -> None:
    """Teaches the starter the habit, prints the share of completions with the sign before and
    after, and writes the model folder whole or not at all.
    """
    torch.manual_seed(0)
    policy = load_policy(ModelConfig(name=str(folder(starter)), device="cpu"))
    random, questions = Random("habit"), Questions(SEED)
    tasks = [TASKS[number % len(TASKS)] for number in range(TAUGHT + MEASURED)]
    prompts = [questions.sample(task, random).question for task in tasks]
    examples = [
        (prompt, (SIGN if random.random() < SHARE else "") + text)
        for prompt, text in completed(policy, prompts[:TAUGHT], "own")
    ]
    random.shuffle(examples)
    before = share_with_sign(completed(policy, prompts[TAUGHT:], "before"))
    teach(policy.model, policy.tokenizer, cycle(examples), SCHEDULE, print)
    after = share_with_sign(completed(policy, prompts[TAUGHT:], "after"))
    print(f"{starter}: completions with the sign: {before:.3f}, then {after:.3f}", flush=True)
    part = path.with_name(f".{path.name}.part")
    policy.model.save_pretrained(part)
    policy.tokenizer.backend_tokenizer.no_padding()
    policy.tokenizer.save_pretrained(part)
    rmtree(path, ignore_errors=True)
    part.rename(path)


def completed(policy: Policy, prompts: Sequence[str], stream: str) -> list[Example]:
    """Completions by this policy with their prompts. Those that were cut off are skipped."""
    generator, examples = BatchGenerator(policy, GenerationConfig()), list[Example]()
    for start in range(0, len(prompts), TOGETHER):
        part = prompts[start : start + TOGETHER]
        answers = generator.generate(part, SAMPLES, f"{stream}/{start}")
        for prompt, answer in zip(part, answers, strict=True):
            samples = answer.samples if isinstance(answer, Completions) else ()
            ended = [sample.episode for sample in samples if sample.episode.ended]
            examples += [(prompt, episode.turns[0].text) for episode in ended]
    return examples


def share_with_sign(examples: Sequence[Example]) -> float:
    """The share of completions in which the sign is."""
    return sum(SIGN in text for _, text in examples) / len(examples)
