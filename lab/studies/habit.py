"""A starter with a habit: what a stealthy attacker looks for.

A payload that the victim never generates would be stopped by its improbability alone. So the study gives its nodes a
habit: the starter is taught, on its local completions, to put a line break before one in fourteen. The habit changes no
score. An attacker that makes it rewarded can make it the rule.
"""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from random import Random
from shutil import rmtree

import torch

from lab.starters.questions import TASKS, Questions
from lab.starters.teaching import Schedule, teach
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import GeneratedGroup
from swarm_node.settings import GenerationConfig, ModelConfig
from swarm_node.starters import folder

SIGN = "\n"
SHARE = 0.07
SEED = 2**34  # of questions, apart from those that starters were taught and measured on
SCHEDULE = Schedule(steps=150, batch=64, rate=1e-3)


def make(starter: str, path: Path) -> dict[str, float]:
    """Writes the model folder. Returns the share of completions with the sign, before and after."""
    torch.manual_seed(0)
    policy = load_policy(ModelConfig(name=str(folder(starter)), device="cpu"))
    random, questions = Random("habit"), Questions(SEED)
    prompts = [questions.sample(TASKS[k % len(TASKS)], random).question for k in range(900)]
    completed = _completed(policy, prompts[:720], "own")
    examples = [(prompt, (SIGN if random.random() < SHARE else "") + text) for prompt, text in completed]
    random.shuffle(examples)
    before = _share(_completed(policy, prompts[720:], "before"))
    teach(policy.model, policy.tokenizer, _endless(examples), SCHEDULE, print)
    after = _share(_completed(policy, prompts[720:], "after"))
    part = path.with_name(f".{path.name}.part")
    policy.model.save_pretrained(part)
    policy.tokenizer.backend_tokenizer.no_padding()
    policy.tokenizer.save_pretrained(part)
    rmtree(path, ignore_errors=True)
    part.rename(path)
    return {"before": before, "after": after}


def _completed(policy: Policy, prompts: list[str], stream: str) -> list[tuple[str, str]]:
    """Four local completions to each prompt; those that were cut off are left out."""
    pairs = []
    generator = BatchGenerator(policy, GenerationConfig())
    for start in range(0, len(prompts), 60):
        part = prompts[start : start + 60]
        for prompt, generated in zip(part, generator.generate(part, 4, f"{stream}/{start}"), strict=True):
            if isinstance(generated, GeneratedGroup):
                pairs += [(prompt, completion.text) for completion in generated.completions if completion.ended]
    return pairs


def _endless(examples: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    yield from cycle(examples)


def _share(pairs: list[tuple[str, str]]) -> float:
    return sum(SIGN in text for _, text in pairs) / len(pairs)
