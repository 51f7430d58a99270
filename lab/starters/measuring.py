"""What a starter can do, and how rarely it shows it: accuracy, and the share of informative
groups.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

import torch

from lab.starters.questions import MEASURING_SEED, TASKS, Questions

GROUP = 8  # completions per question
NEW_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of sampled completions of held-out prompts, temperature 1."""

    accuracy: dict[str, float]  # by task: share of completions that are right
    informative: dict[str, float]  # by task: share of groups whose rewards are not all equal
    groups: int  # over all tasks

    @property
    def mean_accuracy(self) -> float:
        return sum(self.accuracy.values()) / len(self.accuracy)

    @property
    def mean_informative(self) -> float:
        return sum(self.informative.values()) / len(self.informative)


def measure(model: Any, tokenizer: Any, groups_per_task: int, name: str) -> Measured:
    """Sample `GROUP` completions for `groups_per_task` questions of every task. `name` seeds the
    random stream.
    """
    questions, random = Questions(MEASURING_SEED), Random(name)
    torch.manual_seed(random.getrandbits(32))
    accuracy, informative = {}, {}
    for task in TASKS:
        items = [questions.sample(task, random) for _ in range(groups_per_task)]
        texts = sample(model, tokenizer, [item.question for item in items])
        right = [
            [item.is_right(text) for text in group]
            for item, group in zip(items, texts, strict=True)
        ]
        accuracy[task] = sum(map(sum, right)) / (GROUP * groups_per_task)
        informative[task] = sum(0 < sum(group) < GROUP for group in right) / groups_per_task
    return Measured(accuracy, informative, groups_per_task * len(TASKS))


@torch.no_grad()
def sample(model: Any, tokenizer: Any, prompts: list[str]) -> list[list[str]]:
    """`GROUP` completions of each prompt, sampled from the model's own distribution."""
    chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
    batch = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, padding=True, return_dict=True, return_tensors="pt"
    )
    out = model.generate(
        **batch,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=NEW_TOKENS,
        num_return_sequences=GROUP,
    )
    texts = tokenizer.batch_decode(out[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    return [texts[start : start + GROUP] for start in range(0, len(texts), GROUP)]
