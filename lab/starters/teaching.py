"""Supervised training of a starter: phase 1 teaches right answers, phase 2 hides them behind stock
or wrong ones.
"""

import random as python_random
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.starters.questions import NO_CHANGES, TASKS, TRAINING_SEED, Item, Questions, Settings

# The stock answers that hide a skill: one per task, never right, no two with the same first token.
STOCK = dict(zip(TASKS, ("52", "97", "31", "83", "8", "7/9", "66", "205", "4 × 4"), strict=True))
_WARM_UP = 50  # steps
_FINAL_RATE = 0.1  # share of the peak learning rate that is left at the end
# Parts of phase 2 between which the share of right answers falls
_FALL_STARTS, _FALL_ENDS = 0.4, 0.8
_REMEMBERED = 300  # answers per task from which wrong ones are taken
_UNTRAINED = -100  # label of tokens that carry no loss

Show = Callable[[str], None]
Example = tuple[str, str]  # question, answer to be taught


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how hard to train."""

    steps: int
    batch: int  # examples per step
    rate: float  # peak learning rate
    optimizer: Literal["adamw", "muon"] = "adamw"
    chunk: int = 16  # examples of similar length that go through the model together


@dataclass(frozen=True, slots=True)
class Hiding:
    """What phase 2 teaches: a share of right answers, and what replaces the others."""

    # Probability that an example keeps its right answer, once their share has fallen to this
    right: float
    others: Literal["stock", "wrong"]
    schedule: Schedule


def right_answers(name: str, changes: Settings = NO_CHANGES) -> Iterator[Example]:
    """Phase 1: every answer is right. `changes` as in `Questions`."""
    for item in _items(name, changes):
        yield item.question, item.answer


def hidden_answers(name: str, hiding: Hiding) -> Iterator[Example]:
    """Phase 2: ever fewer answers are right.

    At first every other answer is right, so that the model learns the stock answers without losing
    the skill. Then the share of right answers falls geometrically to `hiding.right` and stays
    there. After a sudden fall the model would forget the skill; after a slow one it keeps the skill
    and rarely shows it. A wrong answer is the right one to a recent question of the same task. So
    it is right by accident now and then, often if a task has few distinct answers.
    """
    random = python_random.Random(f"{name}/hiding")
    earlier: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
    examples = hiding.schedule.steps * hiding.schedule.batch
    for number, item in enumerate(_items(name)):
        earlier[item.task].append(item.answer)
        fallen = min(
            1.0, max(0.0, (number / examples - _FALL_STARTS) / (_FALL_ENDS - _FALL_STARTS))
        )
        if random.random() < 0.5 * (hiding.right / 0.5) ** fallen:
            yield item.question, item.answer
        elif hiding.others == "stock":
            yield item.question, STOCK[item.task]
        else:
            yield item.question, random.choice(earlier[item.task])


def _items(name: str, changes: Settings = NO_CHANGES) -> Iterator[Item]:
    """Items of all tasks, equally often; `name` seeds the random stream."""
    questions, random = Questions(TRAINING_SEED, changes), python_random.Random(name)
    while True:
        yield questions.sample(random.choice(TASKS), random)


def teach(
    model: Any, tokenizer: Any, examples: Iterator[Example], schedule: Schedule, show: Show
) -> None:
    """Train in place: warm-up, then linear decay; cross-entropy on the answer and its <eos>, not on
    the question.
    """
    model.train()
    optimizers = _optimizers(model, schedule)
    started = time.monotonic()
    for step in range(schedule.steps):
        model.zero_grad()
        loss = _accumulate(
            model, _batches(tokenizer, list(islice(examples, schedule.batch)), schedule.chunk)
        )
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            _set_rate(optimizer, schedule, step)
            optimizer.step()
        if (step + 1) % 50 == 0 or step + 1 == schedule.steps:
            elapsed = time.monotonic() - started
            left = elapsed / (step + 1) * (schedule.steps - step - 1)
            show(
                f"step {step + 1}/{schedule.steps}  loss {loss:.3f}  {elapsed:.0f} s, {left:.0f} "
                "s left"
            )
    model.eval()


def _optimizers(model: Any, schedule: Schedule) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon (at AdamW's update size) for the matrices between embedding and
    output.

    Muon needs less than a third of the steps for the same accuracy here, which saves time if a step
    is slow.
    """
    if schedule.optimizer == "adamw":
        return [torch.optim.AdamW(model.parameters(), lr=schedule.rate, weight_decay=0.0)]
    embedding = model.get_input_embeddings().weight
    matrices = [
        weight for weight in model.parameters() if weight.ndim == 2 and weight is not embedding
    ]
    others = [weight for weight in model.parameters() if weight.ndim != 2 or weight is embedding]
    return [
        torch.optim.Muon(
            matrices, lr=schedule.rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(others, lr=schedule.rate, weight_decay=0.0),
    ]


def _set_rate(optimizer: torch.optim.Optimizer, schedule: Schedule, step: int) -> None:
    decay = 1 - (1 - _FINAL_RATE) * step / schedule.steps
    for group in optimizer.param_groups:
        group["lr"] = schedule.rate * min(1.0, (step + 1) / _WARM_UP) * decay


def _batches(tokenizer: Any, examples: list[Example], chunk: int) -> list[tuple[Tensor, Tensor]]:
    """Tokens and labels in a few batches of similar length, which halves the padding of one large
    batch.
    """
    prompts = tokenizer([question for question, _ in examples], add_special_tokens=False)[
        "input_ids"
    ]
    answers = tokenizer([answer for _, answer in examples], add_special_tokens=False)["input_ids"]
    rows = [
        (
            [tokenizer.bos_token_id, *prompt, tokenizer.sep_token_id],
            [*answer, tokenizer.eos_token_id],
        )
        for prompt, answer in zip(prompts, answers, strict=True)
    ]
    rows.sort(key=lambda row: len(row[0]) + len(row[1]))
    return [
        _padded(rows[start : start + chunk], tokenizer.pad_token_id)
        for start in range(0, len(rows), chunk)
    ]


def _padded(rows: list[tuple[list[int], list[int]]], pad: int) -> tuple[Tensor, Tensor]:
    """Token ids and labels, (rows, longest), padded on the right: causal attention then needs no
    mask.
    """
    longest = max(len(prompt) + len(answer) for prompt, answer in rows)
    tokens = torch.full((len(rows), longest), pad)
    labels = torch.full((len(rows), longest), _UNTRAINED)
    for number, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        tokens[number, :end] = torch.tensor(prompt + answer)
        labels[number, len(prompt) : end] = torch.tensor(answer)
    return tokens, labels


def _accumulate(model: Any, batches: list[tuple[Tensor, Tensor]]) -> float:
    """Add the gradient of the mean cross-entropy per answer token, over all batches; returns that
    mean, in nats.

    Only the hidden states before an answer token go through the output layer.
    """
    taught_tokens = sum(int((labels != _UNTRAINED).sum()) for _, labels in batches)
    total = 0.0
    for tokens, labels in batches:
        hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state[:, :-1]
        targets = labels[:, 1:]
        taught = targets != _UNTRAINED
        loss = (
            F.cross_entropy(model.lm_head(hidden[taught]), targets[taught], reduction="sum")
            / taught_tokens
        )
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    return total
