"""The environments of a node: how they ask a question, where they find its answer, and which
rewards they remember.

A scoring process builds questions and plays their episodes (`ScoredEnvironment`). A completion that
answers a question at one go is an episode of one turn.

`Answers` is a node's own choice: an address names the bare question, so nodes with other forms and
shots still score each other's groups, each by its own form. A completion is hostile text: reading
it is string work in linear time. Text next to the answer earns nothing, but is trained on; only the
form `whole` leaves no room for such text. What a form reads as the answer is bounded where it is
scored (`scoring/bound.py`), except with `anywhere`, which leaves the search to the verifier.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from protocol import codec
from protocol.addressing import FINGERPRINT, HELD_OUT, fixed_seed, question_seed
from protocol.limits import MAX_QUESTIONS_PER_ROUND
from protocol.messages import PeerId, Question, Round, Turn
from swarm_node.common.batched import paired, routed
from swarm_node.common.errors import UserError
from swarm_node.common.lru import Lru
from swarm_node.environments.rewards import RewardRule
from swarm_node.rollouts.groups import Catalogue, Played, Plays, Skipped, Tasks, ToPlay
from swarm_node.rollouts.interfaces import Environment
from swarm_node.scoring import contract
from swarm_node.scoring.client import Reply, Request, Scoring
from swarm_node.scoring.contract import (
    AFTER_THE_END,
    NOT_SHOWN,
    OTHER_ENVIRONMENT,
    UNKNOWN_QUESTION,
    Replay,
)
from swarm_node.settings import EnvironmentConfig

NUMBER = re.compile(
    r"(?:(?<![0-9A-Za-z)])[-+])?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:/[0-9]+)?"
)
KEPT_PROMPTS = 2048
# No key makes this id; never a seed of held-out questions
SHOTS_SEED = fixed_seed(PeerId("shots"), Round(0))
FINGERPRINT_SEED = fixed_seed(FINGERPRINT, Round(0))  # of the questions 0 to 3 of a digest
KEPT_REWARDS = 8192  # groups; nodes of one simulation score each other's groups
LEARNED = 0.9  # held-out reward from which a task makes room for the next one

# What the digest of a task of one turn is made with
SINGLE_PROBES = ((Turn(""),), (Turn("0"),))

Shot = tuple[str, str]  # question, answer
Written = Sequence[Turn]  # the turns of an episode so far
Rewards = tuple[float, ...] | Skipped
A = TypeVar("A")
R = TypeVar("R")


def in_tags(text: str) -> str:
    """The text between the last <answer> and its </answer>; empty if there is none."""
    inside, closed, _ = text.rpartition("<answer>")[2].partition("</answer>")
    return inside if closed and "<answer>" in text else ""


def in_box(text: str) -> str:
    """The text between the braces of the last \\boxed{}; empty if there is none."""
    _, opened, rest = text.rpartition("\\boxed{")
    depth = 1
    for brace in re.finditer("[{}]", rest if opened else ""):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return rest[: brace.start()]
    return ""


def behind_hashes(text: str) -> str:
    """The rest of the line that follows the last ####."""
    _, found, rest = text.rpartition("####")
    return rest.partition("\n")[0] if found else ""


def last_number(text: str) -> str:
    """The last number, with its sign, separators of thousands, decimals and denominator, but
    nothing after it.
    """
    last = deque(NUMBER.finditer(text), maxlen=1)
    return last[0][0] if last else ""


def first_line(text: str) -> str:
    """The first line. One empty line before it does not matter."""
    return text.removeprefix("\n").partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Form:
    """One way to give an answer."""

    # Takes a completion without its thinking; returns its answer, or an empty text
    read: Callable[[str], str]
    written: str = "{}"  # how a shot shows an answer
    sentence: str = ""  # names the form to a model that sees no shots
    bounded: bool = True  # whether what it reads may say no more than an answer


FORMS: Mapping[str, Form] = {
    "whole": Form(str),
    "first_line": Form(first_line, sentence="Give only the answer, in one line."),
    "tags": Form(
        in_tags, "<answer>{}</answer>", "Give the final answer between <answer> and </answer>."
    ),
    "boxed": Form(in_box, "\\boxed{{{}}}", "Give the final answer in \\boxed{}."),
    "hashes": Form(behind_hashes, "#### {}", "End with a line of #### and the final answer."),
    "last_number": Form(last_number, sentence="End with the final answer, which is a number."),
    "anywhere": Form(str, bounded=False),
}
SHORT = ("whole", "first_line")  # forms that leave no room for thinking


def without_thinking(text: str) -> str:
    """The text after the last </think>, whose <think> may be in the template. Thinking without an
    end is skipped.
    """
    return text.rpartition("</think>")[2].partition("<think>")[0]


@dataclass(frozen=True, slots=True)
class Answers:
    """How a node asks for answers and finds them."""

    form: str = "whole"
    shots: int = 0
    # Config id -> shots where the node sets none
    usual: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def configured(
        cls,
        settings: EnvironmentConfig,
        form: str = "whole",
        usual: Mapping[str, int] | None = None,
    ) -> "Answers":
        """What the options say, or else the `form` and the `usual` shots of the environment."""
        return cls(
            form if settings.answer == "auto" else settings.answer, settings.shots, usual or {}
        )

    @property
    def bounded(self) -> bool:
        """Whether what is read as the answer is paid only if it says nothing else."""
        return FORMS[self.form].bounded

    def count(self, config_id: str) -> int:
        """How many shots stand before a question."""
        return self.shots or self.usual.get(config_id, 0)

    def read(self, text: str) -> str:
        """The answer that a completion gives, and an empty text if it gives none."""
        return FORMS[self.form].read(text if self.form in SHORT else without_thinking(text))

    def prompt(self, question: str, shots: Sequence[Shot]) -> str:
        """The question after its shots. Without shots a sentence names the form of the answer."""
        form = FORMS[self.form]
        if not shots:
            return f"{question}\n\n{form.sentence}" if form.sentence else question
        solved = ""
        for asked, answer in shots:
            written = answer if form.read(answer) else form.written.format(answer)
            solved += _solved(asked, written)
        return solved + question


WHOLE = Answers()


def _solved(question: str, answer: str) -> str:
    """A shot, with its answer where a completion would be: after the question, or below one of
    several lines.
    """
    return f"{question}\n{answer}\n\n" if "\n" in question + answer else f"{question} {answer}\n"


def split_task(task: str) -> tuple[str, str]:
    """("chain_sum", "easy") of "chain_sum/easy"."""
    dataset, _, config_id = task.partition("/")
    return dataset, config_id


def rewards_of_texts(
    environment: Environment, completions: Sequence[tuple[Question, Sequence[str]]]
) -> list[Rewards]:
    """The rewards of texts, each of them an episode of one turn. For whoever has texts and no
    group.
    """
    to_play: list[ToPlay] = []
    for question, texts in completions:
        to_play.append((question, [(Turn(text),) for text in texts]))
    return [_rewards(plays) for plays in environment.play(to_play)]


def _rewards(plays: Plays) -> Rewards:
    if isinstance(plays, Skipped):
        return plays
    return tuple(played.score for played in plays if isinstance(played, Played))


@dataclass(frozen=True, slots=True)
class _Unplayed:
    """Episodes of a question that the scoring process is asked to play."""

    opening: str  # that a trace begins with
    episodes: Sequence[Written]
    request: Request  # to the scoring process


class ScoredEnvironment:
    """Some tasks of one source of questions, and rewards for every task of its catalogue.

    `rule` turns scores into rewards. `answers` says what a prompt shows and where the text of an
    episode of one turn gives its answer; the turns of other episodes are read by the source alone.

    Attributes:
        tasks: (data set, config id) of all tasks of this node.
        asked: those of `tasks` that rounds ask, in turn. Held-out questions are of all tasks.
        count: how many questions evaluation asks; None if there is no end.
        notes: lines that the user should read, each after whether it is a warning.
        swarm: its name, a part of the seeds of peers' questions.
        salt: keeps a digest from giving questions away.
    """

    def __init__(
        self,
        name: str,
        version: str,
        catalogue: Tasks,
        tasks: Sequence[str],
        scoring: Scoring,
        rule: RewardRule,
        answers: Answers = WHOLE,
        turns: int = 1,
        probe: Sequence[contract.Turn] = (),
    ) -> None:
        """`turns` and `probe` are those of a source whose episodes have several turns."""
        self.name, self.version, self.tasks = name, version, tuple(map(split_task, tasks))
        self.count: int | None = None
        self.swarm = self.salt = ""  # set from outside
        self.notes: Sequence[tuple[bool, str]] = ()
        self.asked = self.tasks
        self._several = turns > 1
        several = {name: turns} if turns > 1 else {}
        self._known = Catalogue({name: (version, catalogue)}, several)
        self._rule, self._answers = rule, answers
        self._probes: contract.Episodes = SINGLE_PROBES
        if self._several:
            beginnings = [probe[: end + 1] for end in range(len(probe))]
            self._probes = tuple(map(tuple, beginnings))
        self._shots: dict[tuple[str, str], list[Shot]] = {}  # by task, one more than a prompt shows
        self._digests: dict[tuple[str, str], str] = {}  # by task
        self.scoring = scoring
        scoring.bounded = answers.bounded
        self._prompts: Lru[Question, str | Skipped] = Lru(KEPT_PROMPTS)
        # Skips too, so a group hangs a process only once
        self._rewards: Lru[bytes, Rewards] = Lru(KEPT_REWARDS)

    def prepare(self) -> None:
        """Start the scoring process without waiting: importing its library takes seconds. Raises
        ScoringUnavailable.
        """
        self.scoring.prepare()

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        """Question k is of task k, in turn. With fewer questions than tasks each round takes the
        next few. Authors begin at different tasks, so that a swarm covers all tasks.
        """
        if not 0 <= count <= MAX_QUESTIONS_PER_ROUND:
            raise ValueError(f"{count} questions in a round: at most {MAX_QUESTIONS_PER_ROUND}")
        seed_of = fixed_seed if author == HELD_OUT else partial(question_seed, self.swarm)
        tasks = self.tasks if author == HELD_OUT else self.asked
        whole, seed = len(tasks), seed_of(author, now)
        first = (seed_of(author, Round(0)) + now * count) % whole if count % whole else 0
        in_turn = [tasks[(first + index) % whole] for index in range(count)]
        return [self._question(task, seed, index) for index, task in enumerate(in_turn)]

    @property
    def catalogue(self) -> Catalogue:
        """All tasks of the environment, not only this node's: external groups may be of any of
        them.
        """
        return self._known

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        prompts = list[str | Skipped]()
        for question, bare in paired(questions, self.bare(questions)):
            prompts.append(self._shown(question, bare) if isinstance(bare, str) else bare)
        return prompts

    def bare(self, questions: Sequence[Question]) -> list[str | Skipped]:
        """Prompts without shots, which are the same on all nodes."""
        prompts: dict[Question, str | Skipped] = {}
        for question in questions:
            prompt = self._why_left_out(question) or self._prompts.use(question)
            if prompt is not None:
                prompts[question] = prompt
        missing = [question for question in dict.fromkeys(questions) if question not in prompts]
        replies = self.scoring.ask([self._request(question, None) for question in missing])
        for question, reply in paired(missing, replies):
            prompt = reply if isinstance(reply, str) else skipped(reply)
            prompts[question] = self._prompts[question] = prompt
        return [prompts[question] for question in questions]

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        """See interfaces.Environment. Rewards of questions of one turn are remembered."""
        keys = [_key(question, episodes) for question, episodes in asked]
        openings = self._openings([question for question, _ in asked])
        plays: dict[bytes, Plays] = {}
        unplayed: dict[bytes, _Unplayed] = {}
        for (key, opening), (question, episodes) in paired(paired(keys, openings), asked):
            if isinstance(opening, Skipped):
                plays[key] = opening
            elif (rewards := self._rewards.use(key)) is not None:
                plays[key] = _replayed(rewards)
            elif episodes:
                request = self._request(question, tuple(map(self._read, episodes)))
                unplayed[key] = _Unplayed(opening, episodes, request)
            else:
                plays[key] = ()
        replies = self.scoring.ask([asking.request for asking in unplayed.values()])
        for (key, asking), reply in paired(unplayed.items(), replies):
            plays[key] = self._rewarded_plays(asking, reply)
            if not self._several:
                self._rewards[key] = _rewards(plays[key])
        return [plays[key] for key in keys]

    def score(self, completions: Sequence[tuple[Question, Sequence[str]]]) -> list[Rewards]:
        """See `rewards_of_texts`."""
        return rewards_of_texts(self, completions)

    def _openings(self, questions: Sequence[Question]) -> list[str | Skipped]:
        """What traces begin with: the bare prompts. Empty for questions of one turn, whose episodes
        have no trace. `Skipped` for a question that this node does not know.
        """
        if self._several:
            return self.bare(questions)
        return [self._why_left_out(question) or "" for question in questions]

    def _read(self, turns: Written) -> tuple[Turn, ...]:
        """The turns as the source is to read them: of an answer at one go, what its form takes for
        the answer.
        """
        if self._several:
            return tuple(turns)
        return tuple(Turn(self._answers.read(turn.text)) for turn in turns)

    def _rewarded_plays(self, asking: _Unplayed, reply: Reply) -> Plays:
        """The scoring process's replays of these episodes, with rewards in place of scores."""
        if not isinstance(reply, list):
            return skipped(reply)
        pairs = paired(asking.episodes, reply)
        return tuple(self._rewarded(asking.opening, turns, replay) for turns, replay in pairs)

    def _rewarded(self, opening: str, turns: Written, replay: Replay | Skipped) -> Played | Skipped:
        if isinstance(replay, Skipped):
            return Skipped(AFTER_THE_END)
        reward = self._reward(replay.score, turns)
        if not self._several:
            return Played((), replay.done, reward, "")
        return Played(replay.observations, replay.done, reward, _trace(opening, replay))

    def _reward(self, score: float, turns: Written) -> float:
        """The reward of an episode with this score."""
        return self._rule.reward(score)

    def digest(self, task: tuple[str, str]) -> str:
        """A digest of what this environment does with a task: see protocol/README.md. It is made
        once in a process and never stored, since code may change while its version stays.
        """
        if task not in self._digests:
            behaviour = self._behaviour(task)
            # A second try if one failed: the first question of a task may spend its budget on what
            # it has to load.
            if not all(behaviour):
                behaviour = self._behaviour(task)
            self._digests[task] = codec.environment_digest(behaviour, self.salt)
        return self._digests[task]

    def _behaviour(self, task: tuple[str, str]) -> list[list[str]]:
        places = [(*task, FINGERPRINT_SEED, index) for index in range(4)]
        prompts = self.scoring.ask([(*place, None) for place in places])
        replies = self.scoring.ask([(*place, self._probes) for place in places])
        return [self._told(prompt, reply) for prompt, reply in paired(prompts, replies)]

    def _told(self, prompt: Reply, reply: Reply) -> list[str]:
        """What the probes show of a question; empty where it is not available or scored."""
        if not isinstance(prompt, str) or not isinstance(reply, list):
            return []
        told = [prompt]
        for replay in reply:
            if isinstance(replay, Replay):
                told.append(f"{abs(replay.score):.6f}")
                told += [_trace(prompt, replay)] if self._several else []
        return told

    def close(self) -> None:
        self.scoring.close()

    def _why_left_out(self, question: Question) -> Skipped | None:
        """Why this node takes no part in a question, a local one or a peer's: it is unknown, or its
        environment does otherwise here. None where it takes part.
        """
        if not self._known.knows(question):
            return Skipped(UNKNOWN_QUESTION)
        same = question.digest == self.digest((question.dataset, question.config_id))
        return None if same else Skipped(OTHER_ENVIRONMENT)

    def _shown(self, question: Question, asked: str) -> str:
        """The prompt. A question is never among its own shots."""
        count = self._answers.count(question.config_id)
        shots = self._shots_of(self._shot_task(question), count) if count else []
        of_others = [shot for shot in shots if shot[0] != asked]
        return self._answers.prompt(asked, of_others[:count])

    def _shot_task(self, question: Question) -> tuple[str, str]:
        """The task from which this question's shots come."""
        return question.dataset, question.config_id

    def _shots_of(self, task: tuple[str, str], count: int) -> list[Shot]:
        """Returns at most `count` + 1 questions with their answers, which a prompt can show as
        examples. They are the same in every process. Raises UserError if the environment shows no
        answers.
        """
        if task not in self._shots:
            places = [self._question(task, SHOTS_SEED, index) for index in range(2 * count + 1)]
            prompts = self.scoring.ask([self._request(question, None) for question in places])
            answers = self.scoring.ask([self._request(question, ()) for question in places])
            if Skipped(NOT_SHOWN) in answers:
                raise UserError(
                    f"questions of {self.name} have no answers to show as examples: set "
                    "environment.shots to 0"
                )
            by_prompt: dict[str, Reply] = {}
            for prompt, answer in paired(prompts, answers):
                if isinstance(prompt, str):
                    by_prompt[prompt] = answer
            shots: list[Shot] = []
            for prompt, answer in by_prompt.items():
                if isinstance(answer, str):
                    shots.append((prompt, answer))
            self._shots[task] = shots[: count + 1]
        return self._shots[task]

    def _question(self, task: tuple[str, str], seed: int, index: int) -> Question:
        about = {"environment": self.name, "version": self.version, "digest": self.digest(task)}
        return Question(dataset=task[0], config_id=task[1], seed=seed, index=index, **about)

    def _request(self, question: Question, asked: contract.Asked) -> Request:
        return question.dataset, question.config_id, question.seed, question.index, asked


def skipped(reply: Reply) -> Skipped:
    """The reason that a scoring process gave. AssertionError where it gave none."""
    assert isinstance(reply, Skipped), (
        "the scoring process returns text for a prompt and scores for completions"
    )
    return reply


def _trace(opening: str, replay: Replay) -> str:
    return codec.trace(opening, replay.observations, replay.done)


def _replayed(rewards: Rewards) -> Plays:
    """The plays of episodes of one turn, as far as they are remembered."""
    if isinstance(rewards, Skipped):
        return rewards
    return tuple(Played((), True, reward, "") for reward in rewards)


def _key(question: Question, episodes: Sequence[Written]) -> bytes:
    """A digest, so that an entry stays small however long the episodes are. No peer can make two
    collide.
    """
    # A question's repr is slow
    asked = question.dataset, question.config_id, question.seed, question.index
    written = [tuple(turns) for turns in episodes]
    return hashlib.sha256(repr((asked, written)).encode("utf-8", "backslashreplace")).digest()


class Mixture:
    """Takes an equal share of the questions from each environment. All peers must use the same
    names.
    """

    def __init__(self, environments: Mapping[str, ScoredEnvironment], at_once: int = 0) -> None:
        """`at_once`: how many tasks of each environment are asked at a time; 0 for all."""
        self._environments, self._at_once = dict(environments), at_once
        self.notes = [note for each in environments.values() for note in each.notes]
        # Chooses the task of each question of a node's own round: see `Practice`
        self.chooser: Callable[[Round, int], Sequence[str]] | None = None

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        """Questions that do not divide evenly go to the environments in turn, round by round. Where
        a `chooser` says which tasks are asked, each environment gets those of its own.
        """
        if self.chooser is not None and author != HELD_OUT:
            return self._of_tasks(self.chooser(now, count), author, now)
        names = list(self._environments)
        share, rest = divmod(count, len(names))
        get_one_more = {names[(now * rest + k) % len(names)] for k in range(rest)}
        questions: list[Question] = []
        for name, environment in self._environments.items():
            questions += environment.sample(author, now, share + (name in get_one_more))
        return questions

    def held_out(self, of_each: int) -> list[Question]:
        """Held-out questions, `of_each` of every task, or as many as one round can hold."""
        asked: list[Question] = []
        for environment in self._environments.values():
            whole = len(environment.tasks)
            most = max(1, MAX_QUESTIONS_PER_ROUND // whole)
            asked += environment.sample(HELD_OUT, Round(0), min(of_each, most) * whole)
        return asked

    def _of_tasks(self, tasks: Sequence[str], author: PeerId, now: Round) -> list[Question]:
        """A question of each of these tasks, which may name one several times."""
        asked: list[Question] = []
        for environment in self._environments.values():
            own = tuple(each for each in map(split_task, tasks) if each in environment.tasks)
            if own:
                # As many questions as tasks: an environment asks each of them once, in order
                environment.asked = own
                asked += environment.sample(author, now, len(own))
        return asked

    def choose(self, rewards: Mapping[str, float]) -> tuple[str, ...]:
        """Choose and return the tasks to ask from now on, by held-out rewards of tasks. Of each
        environment these are the first `at_once` that are not learned yet, or all if every one is
        learned. `at_once` 0 changes nothing.
        """
        chosen: list[str] = []
        for environment in self._environments.values():
            if self._at_once:
                left = [task for task in environment.tasks if not _is_learned(task, rewards)]
                environment.asked = tuple(left[: self._at_once]) or environment.tasks
            chosen += map("/".join, environment.asked)
        return tuple(chosen)

    @property
    def catalogue(self) -> Catalogue:
        environments: dict[str, tuple[str, Tasks]] = {}
        several: dict[str, int] = {}
        for environment in self._environments.values():
            environments.update(environment.catalogue.environments)
            several.update(environment.catalogue.several)
        return Catalogue(environments, several)

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        return self._asked(
            lambda environment: environment.prompts, questions, lambda question: question
        )

    def score(self, completions: Sequence[tuple[Question, Sequence[str]]]) -> list[Rewards]:
        """See `rewards_of_texts`."""
        return rewards_of_texts(self, completions)

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        return self._asked(lambda environment: environment.play, asked, lambda one: one[0])

    def close(self) -> None:
        for environment in self._environments.values():
            environment.close()

    def _asked(
        self,
        method: Callable[[ScoredEnvironment], Callable[[Sequence[A]], list[R | Skipped]]],
        items: Sequence[A],
        question_of: Callable[[A], Question],
    ) -> list[R | Skipped]:
        """The replies to all items, each from the environment that its question names."""

        def name_of(item: A) -> str:
            name = question_of(item).environment
            return name if name in self._environments else ""

        def unknown(items: Sequence[A]) -> list[R | Skipped]:
            return [Skipped(UNKNOWN_QUESTION)] * len(items)

        routes: dict[str, Callable[[list[A]], Sequence[R | Skipped]]] = {"": unknown}
        for name, environment in self._environments.items():
            routes[name] = partial(_guarded, method(environment))
        return routed(items, name_of, routes)


def _is_learned(task: tuple[str, str], rewards: Mapping[str, float]) -> bool:
    return rewards.get("/".join(task), 0.0) >= LEARNED


def _guarded(ask: Callable[[Sequence[A]], list[R]], asked: Sequence[A]) -> list[R | Skipped]:
    """If an environment raises, its groups of this round are skipped, counted by the kind of error.
    Only a user's mistake ends the run, such as a scoring process that cannot start: it would recur
    in every round.
    """
    try:
        replies = ask(asked)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001  whatever an environment from outside may raise
        return [Skipped(f"environment raised {type(error).__name__}")] * len(asked)
    return list(replies)
