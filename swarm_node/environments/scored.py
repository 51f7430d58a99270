"""An environment whose scoring process builds questions and scores answers. Here: addresses, what stands around a
question and an answer, and a memory of both."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from protocol.addressing import question_seed
from protocol.limits import MAX_QUESTIONS_PER_ROUND
from protocol.messages import PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.common.lru import Lru
from swarm_node.environments.answers import Answers, Shot
from swarm_node.environments.kinds import EVALUATION, split_task
from swarm_node.environments.rewards import RewardRule
from swarm_node.rollouts.groups import Catalogue, Skipped, Tasks
from swarm_node.scoring.client import Item, Reply
from swarm_node.scoring.contract import NOT_SHOWN, UNKNOWN_QUESTION

KEPT_PROMPTS = 2048
SHOTS_SEED = question_seed(PeerId("shots"), Round(0))  # no key makes this id; never a seed of held-out questions
KEPT_REWARDS = 8192  # groups; nodes of one simulation score each other's

Rewards = tuple[float, ...] | Skipped


class Scoring(Protocol):
    """What builds prompts and scores completions in another process: a pool of scoring processes, mostly."""

    @property
    def restarts(self) -> int: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def layers(self) -> Mapping[str, bool]: ...

    def prepare(self) -> None:
        """Start without waiting. Raises ScoringUnavailable."""
        ...

    def ask(self, items: Sequence[Item]) -> list[Reply]:
        """One reply per item, in order. Raises ScoringUnavailable only."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


class ScoredEnvironment:
    """Some tasks of one source of questions, and scores for every task of its catalogue.

    `rule` turns scores into rewards. `answers` says what a prompt shows and where a completion gives its answer.
    """

    def __init__(
        self,
        name: str,
        version: str,
        catalogue: Tasks,
        tasks: Sequence[str],
        scoring: Scoring,
        rule: RewardRule,
        answers: Answers,
    ) -> None:
        self.name, self.version, self.tasks = name, version, tuple(map(split_task, tasks))
        self.count: int | None = None
        self.asked = self.tasks  # by the rounds of peers, in turn; held-out questions are of all tasks
        self._known = Catalogue({name: (version, catalogue)})
        self._rule, self._answers = rule, answers
        self._shots: dict[tuple[str, str], list[Shot]] = {}  # by task, one more than a prompt shows
        self._scoring = scoring
        self._prompts: Lru[Question, str | Skipped] = Lru(KEPT_PROMPTS)
        self._rewards: Lru[bytes, Rewards] = Lru(KEPT_REWARDS)  # skips too, so a group hangs a process only once

    def prepare(self) -> None:
        """Start the scoring process without waiting: it imports its library for seconds. Raises ScoringUnavailable."""
        self._scoring.prepare()

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        """Question k is of task k, in turn. With fewer questions than tasks each round takes the next few. Authors
        begin at different tasks, so that a swarm covers all tasks."""
        if not 0 <= count <= MAX_QUESTIONS_PER_ROUND:
            raise ValueError(f"{count} questions in a round: at most {MAX_QUESTIONS_PER_ROUND}")
        seed = question_seed(author, now)
        tasks = self.tasks if author == EVALUATION else self.asked
        whole = len(tasks)
        first = (question_seed(author, Round(0)) + now * count) % whole if count % whole else 0
        return [self._question(tasks[(first + k) % whole], seed, k) for k in range(count)]

    @property
    def catalogue(self) -> Catalogue:
        """All tasks of the environment, not only this node's: external groups may be of any of them."""
        return self._known

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        known = {q: self._prompts.use(q) if self._known.knows(q) else Skipped(UNKNOWN_QUESTION) for q in questions}
        missing = [question for question, prompt in known.items() if prompt is None]
        found: dict[Question, str | Skipped] = {}
        for question, reply in zip(missing, self._scoring.ask([self._item(q, None) for q in missing]), strict=True):
            found[question] = self._shown(question, reply) if isinstance(reply, str) else _skipped(reply)
            self._prompts[question] = found[question]
        return [found[q] if (prompt := known[q]) is None else prompt for q in questions]

    def score(self, completions: Sequence[tuple[Question, Sequence[str]]]) -> list[Rewards]:
        results: list[Rewards | None] = []
        missing: dict[bytes, tuple[Question, tuple[str, ...]]] = {}
        keys = [_key(question, texts) for question, texts in completions]
        for key, (question, texts) in zip(keys, completions, strict=True):
            known = self._rewards.use(key) if self._known.knows(question) else Skipped(UNKNOWN_QUESTION)
            if known is None:
                missing[key] = (question, tuple(map(self._answers.read, texts)))
            results.append(known)
        replies = self._scoring.ask([self._item(question, texts) for question, texts in missing.values()])
        found: dict[bytes, Rewards] = {
            key: self._rule.rewards(reply) if isinstance(reply, tuple) else _skipped(reply)
            for key, reply in zip(missing, replies, strict=True)
        }
        for key, rewards in found.items():
            self._rewards[key] = rewards
        return [found[key] if result is None else result for key, result in zip(keys, results, strict=True)]

    @property
    def restarts(self) -> int:
        """How many scoring processes hung or died so far."""
        return self._scoring.restarts

    @property
    def scoring_pid(self) -> int | None:
        return self._scoring.pid

    @property
    def layers(self) -> Mapping[str, bool]:
        """Whether this system has each layer of the sandbox, by name. Empty before the first question."""
        return self._scoring.layers

    def close(self) -> None:
        self._scoring.close()

    def _shown(self, question: Question, asked: str) -> str:
        """The prompt. No shot is the question itself."""
        count = self._answers.count(question.config_id)
        shots = self._shots_of(self._shot_task(question), count) if count else []
        return self._answers.prompt(asked, [shot for shot in shots if shot[0] != asked][:count])

    def _shot_task(self, question: Question) -> tuple[str, str]:
        """The task that this question's shots are of."""
        return question.dataset, question.config_id

    def _shots_of(self, task: tuple[str, str], count: int) -> list[Shot]:
        """One more than `count` questions with their answers, the same in every process. UserError where an environment
        shows none."""
        if task not in self._shots:
            places = [self._question(task, SHOTS_SEED, index) for index in range(2 * count + 1)]
            asked, answers = (self._scoring.ask([self._item(q, ask) for q in places]) for ask in (None, ()))
            if Skipped(NOT_SHOWN) in answers:
                raise UserError(f"questions of {self.name} show no answers, so they take no shots")
            pairs = {one: other for one, other in zip(asked, answers, strict=True) if isinstance(one, str)}
            shown = [(one, other) for one, other in pairs.items() if isinstance(other, str)]
            self._shots[task] = shown[: count + 1]
        return self._shots[task]

    def _question(self, task: tuple[str, str], seed: int, index: int) -> Question:
        dataset, config_id = task
        return Question(
            environment=self.name, version=self.version, dataset=dataset, config_id=config_id, seed=seed, index=index
        )

    def _item(self, question: Question, texts: tuple[str, ...] | None) -> Item:
        """A request to the scoring process."""
        return question.dataset, question.config_id, question.seed, question.index, texts


def _skipped(reply: Reply) -> Skipped:
    assert isinstance(reply, Skipped), "the scoring process returns text for a prompt and scores for completions"
    return reply


def _key(question: Question, texts: Sequence[str]) -> bytes:
    """A digest, so that an entry stays small however long the completions are. No peer can make two collide."""
    asked = (question.dataset, question.config_id, question.seed, question.index, tuple(texts))
    return hashlib.sha256(repr(asked).encode("utf-8", "backslashreplace")).digest()
