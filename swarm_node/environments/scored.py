"""An environment whose questions are built and judged in a judge process: the addresses, the memory, the pay."""

import hashlib
from collections.abc import Container, Mapping, Sequence
from typing import Literal, Protocol

from protocol.addressing import question_seed
from protocol.limits import MAX_QUESTIONS_PER_ROUND
from protocol.messages import PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.common.lru import Lru
from swarm_node.environments.scoring.client import Item, Reply, ScoringClient
from swarm_node.environments.scoring.client_pool import ScoringPool
from swarm_node.environments.scoring.contract import UNKNOWN_QUESTION
from swarm_node.interfaces import Environment
from swarm_node.rollouts.groups import Skipped

EXACT_FROM = 0.99  # a score from here on is a right answer
KEPT_PROMPTS = 2048
KEPT_REWARDS = 8192  # groups; nodes of one simulation judge each other's
EVALUATION = PeerId("evaluation")  # no key makes this id, so no peer asks these questions; see `held_out`

Scoring = Literal["exact", "graded"]
Rewards = tuple[float, ...] | Skipped


class UnknownTaskError(UserError, ValueError):
    """A task name that is not in the catalogue."""


class ScoredEnvironment:
    """Tasks, each (dataset, config id), of one source of questions, and a judge for everything in its catalogue.

    `exact` pays 1.0 for an answer scored 0.99 or better and 0.0 for any other, `graded` pays the score. `instruction`,
    if any, follows each question as a paragraph.
    """

    def __init__(
        self,
        name: str,
        version: str,
        catalogue: Mapping[str, Container[str]],
        tasks: Sequence[tuple[str, str]],
        judge: ScoringClient | ScoringPool,
        scoring: Scoring,
        instruction: str,
    ) -> None:
        self.name, self.version, self.tasks = name, version, tuple(tasks)
        self._catalogue = catalogue
        self._exact = scoring == "exact"
        self._instruction = f"\n\n{instruction}" if instruction else ""
        self._judge = judge
        self._prompts: Lru[Question, str | Skipped] = Lru(KEPT_PROMPTS)
        self._rewards: Lru[bytes, Rewards] = Lru(KEPT_REWARDS)  # skips too: a group that hangs the judge does so once

    def prepare(self) -> None:
        """Start the judge without waiting for it: it takes seconds to import its library. Raises ScoringUnavailable."""
        self._judge.prepare()

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        """Question k is of task k, in turn. With fewer questions than tasks each round takes the next few, and authors
        begin at different tasks, so that a swarm covers them all."""
        if not 0 <= count <= MAX_QUESTIONS_PER_ROUND:
            raise ValueError(f"{count} questions in a round: at most {MAX_QUESTIONS_PER_ROUND}")
        seed = question_seed(author, now)
        whole = len(self.tasks)
        first = (question_seed(author, Round(0)) + now * count) % whole if count % whole else 0
        return [self._question(self.tasks[(first + k) % whole], seed, k) for k in range(count)]

    def knows(self, question: Question) -> bool:
        """Any task of the catalogue, not only those this node asks: what others ask may be learned from too."""
        return (
            question.environment == self.name
            and question.version == self.version
            and question.config_id in self._catalogue.get(question.dataset, ())
        )

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        known = {q: self._prompts.get(q) if self.knows(q) else Skipped(UNKNOWN_QUESTION) for q in questions}
        missing = [question for question, prompt in known.items() if prompt is None]
        found: dict[Question, str | Skipped] = {}
        for question, reply in zip(missing, self._judge.ask([self._item(q, None) for q in missing]), strict=True):
            found[question] = reply + self._instruction if isinstance(reply, str) else _skipped(reply)
            self._prompts.put(question, found[question])
        return [found[q] if (prompt := known[q]) is None else prompt for q in questions]

    def score(self, answers: Sequence[tuple[Question, Sequence[str]]]) -> list[Rewards]:
        results: list[Rewards | None] = []
        missing: dict[bytes, tuple[Question, tuple[str, ...]]] = {}
        keys = [_key(question, texts) for question, texts in answers]
        for key, (question, texts) in zip(keys, answers, strict=True):
            known = self._rewards.get(key) if self.knows(question) else Skipped(UNKNOWN_QUESTION)
            if known is None:
                missing[key] = (question, tuple(texts))
            results.append(known)
        replies = self._judge.ask([self._item(question, texts) for question, texts in missing.values()])
        found = {key: self._pay(reply) for key, reply in zip(missing, replies, strict=True)}
        for key, rewards in found.items():
            self._rewards.put(key, rewards)
        return [found[key] if result is None else result for key, result in zip(keys, results, strict=True)]

    @property
    def restarts(self) -> int:
        """How many judge processes hung or died so far."""
        return self._judge.restarts

    @property
    def judge_pid(self) -> int | None:
        return self._judge.pid

    @property
    def layers(self) -> dict[str, bool]:
        """Of the sandbox, by name: whether this system has them. Empty before the first question."""
        return self._judge.layers

    def close(self) -> None:
        self._judge.close()

    def _question(self, task: tuple[str, str], seed: int, index: int) -> Question:
        dataset, config_id = task
        return Question(
            environment=self.name, version=self.version, dataset=dataset, config_id=config_id, seed=seed, index=index
        )

    def _item(self, question: Question, texts: tuple[str, ...] | None) -> Item:
        """What the judge is asked."""
        return question.dataset, question.config_id, question.seed, question.index, texts

    def _pay(self, reply: Reply) -> Rewards:
        if not isinstance(reply, tuple):
            return _skipped(reply)
        return tuple(float(score >= EXACT_FROM) for score in reply) if self._exact else reply


class AskingEnvironment(Environment, Protocol):
    """An environment that asks some tasks in turn."""

    tasks: tuple[tuple[str, str], ...]  # (dataset, config id)

    def prepare(self) -> None:
        """Start what takes seconds to start, without waiting for it. UserError where it cannot be started."""
        ...


def held_out(environment: AskingEnvironment, count: int) -> list[Question]:
    """Questions for `swarm-node eval` and for validation, `count` in all, over the tasks in turn: of an author that
    cannot exist.

    Their addresses are nobody's; a question itself may still have been asked, where a task has few (chain_sum/tiny has
    not many sums), and so may the one of a neighbouring seed, since reasoning-gym derives an item from seed + index.
    """
    tasks = len(environment.tasks)
    page = MAX_QUESTIONS_PER_ROUND // tasks * tasks or MAX_QUESTIONS_PER_ROUND  # whole turns: as many of each task
    full, rest = divmod(count, page)
    sizes = [page] * full + [rest] * (rest > 0)
    return [q for now, size in enumerate(sizes) for q in environment.sample(EVALUATION, Round(now), size)]


def _skipped(reply: Reply) -> Skipped:
    assert isinstance(reply, Skipped), "the judge client answers a prompt with text, answers with rewards"
    return reply


def _key(question: Question, texts: Sequence[str]) -> bytes:
    """A digest that no peer can make collide, so that an entry stays small however long the texts are."""
    asked = (question.dataset, question.config_id, question.seed, question.index, tuple(texts))
    return hashlib.sha256(repr(asked).encode("utf-8", "backslashreplace")).digest()
