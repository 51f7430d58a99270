"""`swarm-node ask`: what the node's model says to a question, before its training and now, side by
side.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from protocol.limits import MAX_QUESTIONS_PER_ROUND
from protocol.messages import Round
from swarm_node.commands.asks import going_on
from swarm_node.commands.command import Command
from swarm_node.common.console import Terminal
from swarm_node.common.errors import UserError, printable
from swarm_node.common.loading import quickly
from swarm_node.environments.kinds import EVALUATION
from swarm_node.environments.registry import build_environment, tasks_of
from swarm_node.node.defaults import newest, resolved
from swarm_node.policy.named import say
from swarm_node.rollouts.interfaces import Environment
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line

if TYPE_CHECKING:
    from swarm_node.policy.policy import Policy

LOOKED_AT = 4  # questions of each task, compared to find what all its prompts share
ALIKE = 4  # characters that the text and a question must share at their beginning
SHOWN = 200  # characters of a question or an answer

PAGE = """\
usage: swarm-node ask [TEXT] [--flags]

What the node's model says, before its training and with its newest checkpoint,
side by side. TEXT is put the way a task of the node puts its questions, behind
the same shots; without TEXT one held-out question of each task is asked. The
home knows what it was trained on. Takes the flags of run, which change that.

  --home FOLDER                  of the node (~/.swarm-node)
  --environment.tasks TASK ...   other tasks than those of the node
  --dataset.file FILE            other questions of your own
  --generation.max-completion-length N
                                 tokens after which an answer is cut off"""


class QuestionConfig(NodeConfig):
    """What the node's model says, before its training and now."""

    text: str = ""
    """The question. Empty: a held-out question of each task."""


def command(argv: list[str]) -> None:
    """Prints a table. A first argument without dashes is the text."""
    config = from_command_line(QuestionConfig, argv, "swarm-node ask", first="text")
    checkpoint = newest(config.home / "checkpoints", "train first, by swarm-node run")
    config = resolved(going_on(config, config.home.expanduser(), say), say)
    with closing(build_environment(config)) as environment:
        tasks = held_out(environment, len(tasks_of(config)))
        prompts = [framed(config.text, tasks)] if config.text else one_of_each(tasks)
    before, now = answers(config, checkpoint, [prompt for _, prompt in prompts])
    table = Table("question", "before", f"after {int(checkpoint.name)} rounds")
    for (question, _), *said in zip(prompts, before, now, strict=True):
        table.add_row(*(Text(printable(each.strip(), SHOWN)) for each in (question, *said)))
    Terminal().print(table)


def held_out(environment: Environment, tasks: int) -> dict[str, list[str]]:
    """Some held-out prompts of each task. `tasks`: how many tasks there are."""
    questions = environment.sample(
        EVALUATION, Round(0), min(LOOKED_AT * tasks, MAX_QUESTIONS_PER_ROUND)
    )
    found: dict[str, list[str]] = {}
    for question, prompt in zip(questions, environment.prompts(questions), strict=True):
        if isinstance(prompt, str):
            found.setdefault(f"{question.dataset}/{question.config_id}", []).append(prompt)
    return found


def one_of_each(tasks: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """A question of each task, as it is shown and as it is asked."""
    found = []
    for prompts in tasks.values():
        head, tail = around(prompts)
        found.append((prompts[0].removeprefix(head).removesuffix(tail), prompts[0]))
    return found


def framed(text: str, tasks: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """The text, and the text framed as in the task that it resembles most, if any, or as in the
    only task.
    """
    best, most = ("", ""), ALIKE - 1 if len(tasks) > 1 else -1
    for prompts in tasks.values():
        head, tail = around(prompts)
        alike = max(len(_beginning([text, prompt.removeprefix(head)])) for prompt in prompts)
        if alike > most:
            best, most = (head, tail), alike
    return text, best[0] + text + best[1]


def around(prompts: Sequence[str]) -> tuple[str, str]:
    """The whole lines that stand before and behind the question in all of these prompts."""
    head = _beginning(prompts)
    head = head[: head.rfind("\n") + 1]
    tail = _beginning([prompt[len(head) :][::-1] for prompt in prompts])[::-1]
    return head, tail[tail.find("\n") :] if "\n" in tail else ""


def _beginning(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(char for char, _ in alike)


def answers(
    config: NodeConfig, checkpoint: Path, prompts: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The likeliest answer to each prompt: by the model before its training, and by this
    checkpoint. UserError.
    """
    with quickly():
        from swarm_node.policy.loading import configured_policy  # now: it loads torch
        from swarm_node.policy.soundness import Damaged
    try:
        policy = configured_policy(config, checkpoint)
    except Damaged as error:
        raise UserError(
            f"checkpoint {checkpoint} is damaged ({error}): move it away to ask the one before it, "
            "or take a backup"
        ) from error
    now = list(_likeliest(config, policy, prompts))
    if config.model.lora_rank:
        with policy.model.disable_adapter():
            return list(_likeliest(config, policy, prompts)), now
    del policy  # so that memory never holds two sets of weights
    return list(_likeliest(config, configured_policy(config), prompts)), now


def _likeliest(config: NodeConfig, policy: "Policy", prompts: Sequence[str]) -> Iterator[str]:
    import torch

    for prompt in prompts:
        ids = torch.tensor([policy.encode_prompt(prompt)], device=policy.device)
        made = policy.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=config.generation.max_completion_length,
            do_sample=False,
            pad_token_id=policy.pad_id,
        )
        (text,) = policy.decode([made[0, ids.shape[1] :].tolist()])
        yield min(
            (text.partition(stop)[0] for stop in config.generation.stop), key=len, default=text
        )


ASK = Command(QuestionConfig, PAGE, command)
