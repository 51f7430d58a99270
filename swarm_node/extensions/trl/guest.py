"""Lets a script with TRL's GRPOTrainer join a swarm: `pip install 'textswarm[trl]'`, and
docs/how-to/trl.md.

Local groups are published as soon as they are scored. External groups take the places of local ones
in a batch. Their log-probs are not known, so, as in a node's training, the policy that trains
counts as the one that wrote them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import metadata
from itertools import cycle, islice
from statistics import fmean
from typing import TYPE_CHECKING, Any

from protocol.messages import Episode, PeerId, Question
from swarm_node import api as script
from swarm_node.common.errors import UserError
from swarm_node.policy.policy import turn_end
from swarm_node.rollouts.groups import ScoredGroup, Skipped
from swarm_node.settings import NodeConfig

if TYPE_CHECKING:
    from datasets import Dataset

SUPPORTED = "1.16."  # its hook is experimental: another release may call it differently
KEPT = 256  # external groups that wait


class Swarm(script.Swarm):
    """A place in a swarm for a GRPOTrainer. `external_groups`: at most so many groups of a batch,
    and never all.
    """

    def __init__(self, config: NodeConfig | None = None, external_groups: int = 2) -> None:
        try:
            found = metadata.version("trl")
        except metadata.PackageNotFoundError as error:
            raise UserError("TRL is not installed: pip install 'textswarm[trl]'") from error
        if not found.startswith(SUPPORTED):
            raise UserError(
                f"TRL {found} is installed, {SUPPORTED}* is needed: pip install 'textswarm[trl]'"
            )
        super().__init__(config or NodeConfig())
        self._external_groups = external_groups
        self._waiting: list[ScoredGroup] = []
        # Prompt -> local questions, in the order of the data set
        self._asked: dict[str, list[Question]] = {}
        self._ends: set[int] = set()  # tokens that end a completion
        self.published = 0
        self.trained_on = Counter[PeerId]()  # external groups by author
        # Of local groups, a mean for each batch; None where none was scored
        self.rewards: list[float | None] = []

    def dataset(self, rounds: int, questions: int) -> "Dataset":
        """Prompts with their addresses. `questions` of a round should fill a batch: batch size /
        num_generations.
        """
        from datasets import Dataset

        rows: list[dict[str, Any]] = []
        for _ in range(rounds):
            asked = self.questions(questions)
            if any(self._environment.turns(question) > 1 for question in asked):
                raise UserError(
                    "a GRPOTrainer gives one completion a question: train tasks of several turns "
                    "by swarm-node run, and name others here"
                )
            for question, prompt in zip(asked, self.prompts(asked), strict=True):
                if isinstance(prompt, str):
                    rows.append({"prompt": _turn(prompt), "address": question.model_dump_json()})
                    self._asked.setdefault(prompt, []).append(question)
        return Dataset.from_list(rows)

    def rollout(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """For `rollout_func`: local completions by the trainer and, behind them, those of external
        groups.
        """
        if trainer.args.shuffle_dataset:
            raise UserError(
                "set GRPOConfig(shuffle_dataset=False): rounds are published in their order"
            )
        self._ends = set(trainer.eos_token_ids)
        tokenizer = trainer.processing_class
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        groups = [prompts[k] for k in range(0, len(prompts), size)]
        external = self._take(len(groups), trainer.model.training)
        local = groups[: len(groups) - len(external)]
        # A base model has no chat template: its prompts are texts to go on with, as they are in a
        # node.
        asked = [*(_text(prompt) for prompt in local), *(group.prompt for group in external)]
        turns = [
            _turn(prompt) if tokenizer.chat_template else prompt
            for prompt in asked
            for _ in range(size)
        ]
        prompt_ids, _, _ = trainer._tokenize_prompts(turns[: size * len(local)])
        completion_ids, _ = trainer._generate_single_turn(prompt_ids, None, {}, size)
        addresses = [self._next(prompt).model_dump_json() for prompt in local for _ in range(size)]
        end = turn_end(tokenizer, self._ends, tokenizer.eos_token_id)
        assert end is not None, "GRPOTrainer takes no tokenizer without EOS"
        for place, group in enumerate(external, len(local)):
            ids, _, _ = trainer._tokenize_prompts(turns[size * place : size * (place + 1)])
            prompt_ids = [*prompt_ids, *ids]
            completion_ids = [*completion_ids, *_encoded(group, size, trainer, end)]
            addresses += [group.question.model_dump_json()] * size
        self.trained_on.update(group.author for group in external)
        return {
            "prompt_ids": prompt_ids,
            "completion_ids": completion_ids,
            "logprobs": None,
            "address": addresses,
        }

    def reward(
        self,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        address: Sequence[str],
        **_: Any,
    ) -> list[float | None]:
        """For `reward_funcs`: rewards by address, None where scoring failed. Publishes the local
        groups.
        """
        places: dict[str, list[int]] = {}
        for place, name in enumerate(address):
            places.setdefault(name, []).append(place)
        rewards: list[float | None] = [None] * len(address)
        earned: list[float] = []  # by local groups
        local: dict[Question, list[Episode]] = {}
        for name, at in places.items():
            question = Question.model_validate_json(name)
            texts = [_text(completions[place]) for place in at]
            found = self.score(question, texts)
            if isinstance(found, Skipped):
                continue
            for place, value in zip(at, found, strict=True):
                rewards[place] = value
            if not self.is_local(question):
                continue
            earned.append(fmean(found))
            if len(texts) > 1:
                ended = [completion_ids[place][-1] in self._ends for place in at]
                local[question] = [
                    Episode.of(text=t, ended=e) for t, e in zip(texts, ended, strict=True)
                ]
        self.rewards.append(fmean(earned) if earned else None)
        self._offer(local)
        return rewards

    def _offer(self, local: Mapping[Question, Sequence[Episode]]) -> None:
        for now in sorted({self._of[question] for question in local}):
            mine = {question: said for question, said in local.items() if self._of[question] == now}
            self.published += len(self.publish(mine))

    def _take(self, groups: int, training: bool) -> list[ScoredGroup]:
        """External groups for this batch, the newest first."""
        found = [
            group for group in self.collect() if all(each.single for each in group.group.episodes)
        ]
        self._waiting = [*self._waiting, *found][-KEPT:]
        wanted = min(self._external_groups, groups - 1, len(self._waiting)) if training else 0
        return [self._waiting.pop() for _ in range(wanted)]

    def _next(self, prompt: Any) -> Question:
        """The address of a prompt of the data set: where several have this prompt, each in its
        turn.
        """
        asked = self._asked[_text(prompt)]
        asked.append(question := asked.pop(0))
        return question


def _turn(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


def _text(said: Any) -> str:
    return said if isinstance(said, str) else str(said[-1]["content"])


def _encoded(group: ScoredGroup, size: int, trainer: Any, end: int) -> list[list[int]]:
    """Token ids of exactly `size` completions of the group, good and bad ones in turn, by the
    trainer's tokenizer: text that spells a special token stays text. Those that ended get the token
    `end`.
    """
    by_reward: dict[float, list[Episode]] = {}
    for completion, reward in zip(group.group.episodes, group.rewards, strict=True):
        by_reward.setdefault(reward, []).append(completion)
    kinds = cycle([cycle(members) for _, members in sorted(by_reward.items(), reverse=True)])
    chosen = [next(kind) for kind in islice(kinds, size)]
    encode = partial(trainer.processing_class, add_special_tokens=False, split_special_tokens=True)
    ids = [list(encode(each.text).input_ids) for each in chosen]
    return [
        ([*known, end] if each.ended or not known else known)[: trainer.max_completion_length]
        for known, each in zip(ids, chosen, strict=True)
    ]
