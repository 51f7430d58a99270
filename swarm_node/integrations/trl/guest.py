"""Lets a script with TRL's GRPOTrainer join a swarm: `pip install 'textswarm[trl]'`, and
docs/how-to/trl.md.

Local groups are published as soon as they are scored. External groups take the places of local ones
in a batch. Rows of the script's own may stand beside those of the swarm: they are completed as they
are, and neither scored here nor published nor replaced. External log-probs are not known, so, as
in a node's training, the policy that trains counts as the one that wrote them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import metadata
from itertools import cycle, islice
from statistics import fmean
from typing import TYPE_CHECKING, Any

from protocol.messages import Episode, PeerId, Question, Round
from swarm_node import api as script
from swarm_node.common.errors import UserError, printable
from swarm_node.policy.policy import turn_end
from swarm_node.policy.soundness import Damaged, check_template
from swarm_node.rollouts.groups import Group, Skipped
from swarm_node.settings import NodeConfig

if TYPE_CHECKING:
    from datasets import Dataset

SUPPORTED = "1.16."  # its hook is experimental: another release may call it differently
KEPT = 256  # external groups that wait


class TrainerGuest(script.Swarm):
    """Lets a GRPOTrainer of TRL take part in a swarm. `external_groups`: the largest number of
    groups of a batch that come from other nodes. At least one group of a batch is always the
    trainer's own.
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
        self._system = config.environment.system if config else ""
        self._checked: Any = None  # the trainer whose rows and template have been looked at
        self._waiting: list[Group] = []
        # Prompt -> local questions, in the order of the data set
        self._asked: dict[str, list[Question]] = {}
        self._ends: set[int] = set()  # tokens that end a completion
        self.published = 0
        self.trained_on = Counter[PeerId]()  # external groups by author
        # Of local groups, a mean for each batch; None where none was scored
        self.rewards: list[float | None] = []

    def dataset(self, rounds: int, questions: int) -> "Dataset":
        """Prompts with their addresses, after `environment.system` as a system turn. `questions`
        of a round should fill a batch: batch size / num_generations.
        """
        from datasets import Dataset

        rows: list[dict[str, Any]] = []
        before = _turn(self._system, "system") if self._system else []
        for _ in range(rounds):
            asked = self.questions(questions)
            if any(self._environment.catalogue.turns(question) > 1 for question in asked):
                raise UserError(
                    "a GRPOTrainer gives one completion a question: train tasks of several turns "
                    "with swarm-node run, and name others here"
                )
            for question, prompt in zip(asked, self.prompts(asked), strict=True):
                if isinstance(prompt, str):
                    turns = [*before, *_turn(prompt)]
                    rows.append({"prompt": turns, "address": question.model_dump_json()})
                    self._asked.setdefault(prompt, []).append(question)
        return Dataset.from_list(rows)

    def rollout(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Give this to TRL as `rollout_func`. It returns completions by the trainer and, in place
        of those to the last questions of the swarm in a batch, completions of other nodes.
        """
        self._begin(trainer)
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        asked = [prompts[k] for k in range(0, len(prompts), size)]
        external = self._placed(asked, trainer.model.training)
        prompt_ids = self._prompt_ids(asked, external, size, trainer)
        to_generate = list[list[int]]()
        for place in range(len(asked)):
            if place not in external:
                to_generate += prompt_ids[size * place : size * (place + 1)]
        generated = iter(trainer._generate_single_turn(to_generate, None, {}, size)[0])
        completion_ids, addresses = list[list[int]](), list[str | None]()
        for place, prompt in enumerate(asked):
            if (group := external.get(place)) is not None:
                completion_ids += _encoded(group, size, trainer, self._end(trainer))
                addresses += [group.question.model_dump_json()] * size
            else:
                completion_ids += islice(generated, size)
                addresses += [self._next(prompt)] * size
        self.trained_on.update(group.author for group in external.values())
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
        address: Sequence[str | None],
        **_: Any,
    ) -> list[float | None]:
        """Give this to TRL among its `reward_funcs`. It returns rewards by address, None where
        scoring failed and for rows that the script brings itself, and publishes the local groups.
        """
        places: dict[str, list[int]] = {}
        for place, name in enumerate(address):
            if name is not None:
                places.setdefault(name, []).append(place)
        rewards: list[float | None] = [None] * len(address)
        earned: list[float] = []  # by local groups
        local: dict[Question, list[Episode]] = {}
        for name, at in places.items():
            question = Question.model_validate_json(name)
            texts = [_text(completions[place]) for place in at]
            group_rewards = self.score(question, texts)
            if isinstance(group_rewards, Skipped):
                continue
            for place, reward in zip(at, group_rewards, strict=True):
                rewards[place] = reward
            if not self.is_local(question):
                continue
            earned.append(fmean(group_rewards))
            if len(texts) > 1:
                local[question] = []
                for place, text in zip(at, texts, strict=True):
                    ended = completion_ids[place][-1] in self._ends
                    local[question].append(Episode.of(text=text, ended=ended))
        self.rewards.append(fmean(earned) if earned else None)
        self._offer(local)
        return rewards

    def _offer(self, local: Mapping[Question, Sequence[Episode]]) -> None:
        by_round: dict[Round, dict[Question, Sequence[Episode]]] = {}
        for question, episodes in local.items():
            by_round.setdefault(self._of[question], {})[question] = episodes
        for now in sorted(by_round):
            self.published += len(self.publish(by_round[now]))

    def _begin(self, trainer: Any) -> None:
        """Looks at the trainer before its first batch. Raises UserError where it cannot train
        here.
        """
        if trainer.args.shuffle_dataset:
            raise UserError(
                "set GRPOConfig(shuffle_dataset=False): rounds are published in their order"
            )
        self._ends = set(trainer.eos_token_ids)
        if trainer is self._checked:
            return
        self._check_rows(trainer.train_dataset)
        try:
            check_template(trainer.processing_class, self._system)
        except Damaged as error:
            raise UserError(
                f"the chat template takes no system turn: remove environment.system: {error}"
            ) from error
        self._checked = trainer

    def _check_rows(self, data: Any) -> None:
        """UserError for a row with one of our addresses that asks something else: peers would score
        its completions by the question that the address leads to.
        """
        if "address" not in (getattr(data, "column_names", None) or ()):
            return
        ours = {each.model_dump_json() for asked in self._asked.values() for each in asked}
        for prompt, address in zip(data["prompt"], data["address"], strict=True):
            if address in ours and _text(prompt) not in self._asked:
                raise UserError(
                    f"a row asks {printable(_text(prompt), 60)!r} under the address of another "
                    "question: change the turns before a question of `dataset`, never the question"
                )

    def _placed(self, asked: Sequence[Any], training: bool) -> dict[int, Group]:
        """External groups for this batch, by the places they take: the last ones that ask questions
        of the swarm, and never all places.
        """
        ours = [place for place, prompt in enumerate(asked) if _text(prompt) in self._asked]
        most = min(len(ours), len(asked) - 1) if training else 0
        groups = self._take(most)
        last_places = ours[len(ours) - len(groups) :]
        return dict(zip(last_places, groups, strict=True))

    def _prompt_ids(
        self, asked: Sequence[Any], external: Mapping[int, Group], size: int, trainer: Any
    ) -> list[list[int]]:
        """Returns the token ids of each prompt, repeated `size` times: once for each completion of
        its group. A question of a peer takes the place of one of the script's questions, and comes
        after the same earlier turns (such as a system prompt) as that question did. A model without
        a chat template gets its prompt as plain text to continue, as it does in a node.
        """
        prompts = list[Any]()
        for place, prompt in enumerate(asked):
            if (group := external.get(place)) is not None:
                before = [] if isinstance(prompt, str) else prompt[:-1]
                prompt = [*before, *_turn(group.prompt)]
            in_turns = trainer.processing_class.chat_template
            prompts += [prompt if in_turns else _joined(prompt)] * size
        ids: list[list[int]] = trainer._tokenize_prompts(prompts)[0]
        return ids

    def _end(self, trainer: Any) -> int:
        """The token that ends a completion of a peer."""
        tokenizer = trainer.processing_class
        end = turn_end(tokenizer, self._ends, tokenizer.eos_token_id)
        assert end is not None, "GRPOTrainer takes no tokenizer without EOS"
        return end

    def _take(self, most: int) -> list[Group]:
        """External groups for this batch, the newest first."""
        for group in self.collect():
            if all(episode.single for episode in group.episodes):
                self._waiting.append(group)
        self._waiting = self._waiting[-KEPT:]
        wanted = min(self._external_groups, most, len(self._waiting))
        return [self._waiting.pop() for _ in range(wanted)]

    def _next(self, prompt: Any) -> str | None:
        """The address of a prompt of `dataset`: where several have this prompt, each in its turn.
        None for a prompt of the script's own.
        """
        if (asked := self._asked.get(_text(prompt))) is None:
            return None
        asked.append(question := asked.pop(0))
        return question.model_dump_json()


def _turn(text: str, role: str = "user") -> list[dict[str, str]]:
    """The text as a chat of one turn."""
    return [{"role": role, "content": text}]


def _joined(prompt: Any) -> str:
    """A prompt for a model without a chat template: its turns as paragraphs, as in a node."""
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(str(turn["content"]) for turn in prompt)


def _text(said: Any) -> str:
    return said if isinstance(said, str) else str(said[-1]["content"])


def _encoded(group: Group, size: int, trainer: Any, end: int) -> list[list[int]]:
    """Token ids of exactly `size` completions of the group, good and bad ones in turn, by the
    trainer's tokenizer: text that spells a special token stays text. Completions that ended get the
    token `end`.
    """
    by_reward: dict[float, list[Episode]] = {}
    for sample in group.samples:
        by_reward.setdefault(sample.earned, []).append(sample.episode)
    best_first = [cycle(by_reward[reward]) for reward in sorted(by_reward, reverse=True)]
    chosen = [next(equals) for equals in islice(cycle(best_first), size)]
    encode = partial(trainer.processing_class, add_special_tokens=False, split_special_tokens=True)
    rows: list[list[int]] = []
    for episode in chosen:
        ids = list(encode(episode.text).input_ids)
        if episode.ended or not ids:
            ids.append(end)
        rows.append(ids[: trainer.max_completion_length])
    return rows


# The name that scripts import
Swarm = TrainerGuest
