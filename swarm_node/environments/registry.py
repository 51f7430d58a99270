"""From task names to environments, and several of them as one. Those that ship are found like any other: by their
registered names."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Any, TypeVar

from protocol.messages import PeerId, Question, Round, Turn
from swarm_node.common import plugins
from swarm_node.common.errors import UserError, printable
from swarm_node.environments.kinds import EVALUATION, Asking, AskingEnvironment, EnvironmentKind, find, split_task
from swarm_node.environments.plugged import PluggedKind
from swarm_node.rollouts.groups import Catalogue, Plays, Skipped, ToPlay
from swarm_node.rollouts.transcript import parse
from swarm_node.scoring.contract import UNKNOWN_QUESTION
from swarm_node.settings import LearningConfig

C = TypeVar("C", bound=LearningConfig)
A = TypeVar("A")
R = TypeVar("R")
KIND = "environments"
LEARNED = 0.9  # of held-out questions: the task makes room for the next


class Mixture:
    """Takes an equal share of the questions from each environment. All peers must use the same names."""

    def __init__(self, environments: Mapping[str, AskingEnvironment], at_once: int = 0) -> None:
        """`at_once`: tasks of each that are asked at a time; 0 for all."""
        self._environments, self._at_once = dict(environments), at_once
        self.notes = [note for each in environments.values() for note in each.notes]

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        """Questions that do not divide evenly go to the environments in turn, round by round."""
        names = list(self._environments)
        share, rest = divmod(count, len(names))
        lucky = {names[(now * rest + k) % len(names)] for k in range(rest)}
        return [
            question
            for name, environment in self._environments.items()
            for question in environment.sample(author, now, share + (name in lucky))
        ]

    def choose(self, rewards: Mapping[str, float]) -> tuple[str, ...]:
        """The tasks that are asked from now on, by their held-out rewards: of each environment the first ones, as many
        as it asks at once, that are not learned yet; all of it where every one is learned."""
        chosen: list[str] = []
        for environment in self._environments.values():
            if self._at_once:
                left = [task for task in environment.tasks if rewards.get("/".join(task), 0.0) < LEARNED]
                environment.asked = tuple(left[: self._at_once]) or environment.tasks
            chosen += map("/".join, environment.asked)
        return tuple(chosen)

    @property
    def catalogue(self) -> Catalogue:
        known = [each.catalogue for each in self._environments.values()]
        return Catalogue(
            {name: entry for each in known for name, entry in each.environments.items()},
            {name: turns for each in known for name, turns in each.several.items()},
        )

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        return self._asked(lambda each: each.prompts, questions, [q.environment for q in questions])

    def score(self, completions: Sequence[tuple[Question, Sequence[str]]]) -> list[tuple[float, ...] | Skipped]:
        return self._asked(lambda each: each.score, completions, [q.environment for q, _ in completions])

    def turns(self, question: Question) -> int:
        environment = self._environments.get(question.environment)
        return environment.turns(question) if environment else 1

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        return self._asked(lambda each: each.play, asked, [q.environment for q, _ in asked])

    def close(self) -> None:
        for environment in self._environments.values():
            environment.close()

    def _asked(
        self,
        method: Callable[[AskingEnvironment], Callable[[Sequence[A]], list[R | Skipped]]],
        items: Sequence[A],
        names: Sequence[str],
    ) -> list[R | Skipped]:
        """Replies to all items, each of the environment of its name."""
        results: list[R | Skipped] = [Skipped(UNKNOWN_QUESTION)] * len(items)
        for name, environment in self._environments.items():
            if places := [place for place, asked in enumerate(names) if asked == name]:
                replies = _guarded(method(environment), [items[place] for place in places])
                for place, reply in zip(places, replies, strict=True):
                    results[place] = reply
        return results


def _guarded(ask: Callable[[Sequence[A]], list[R]], asked: Sequence[A]) -> list[R | Skipped]:
    """If an environment raises, its groups of this round are skipped, counted by the kind of error.

    Only a user's mistake, such as a scoring process that cannot start, ends the run, since it would recur in every
    round.
    """
    try:
        replies = ask(asked)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001  whatever an environment from outside may raise
        return [Skipped(f"environment raised {type(error).__name__}")] * len(asked)
    return list(replies)


@cache
def kinds(use: tuple[str, ...]) -> tuple[EnvironmentKind, ...]:
    """First those that a configuration names, then those that ship. UserError if one cannot be loaded."""
    points = plugins.registered(KIND)
    shipped = {name: plugins.load(KIND, name) for name, point in points.items() if plugins.is_ours(point)}
    used = [shipped.pop(name, None) or PluggedKind(plugins.target(KIND, name)) for name in use]
    return (*used, *shipped.values())


def with_environment(config: C, **changes: Any) -> C:
    """The configuration with other options of its environments."""
    return config.model_copy(update={"environment": config.environment.model_copy(update=changes)})


def tasks_of(config: Asking) -> tuple[str, ...]:
    """The tasks of a node: those given, else those of the user's data set, else all of the environments in use, else
    those of the starters."""
    settings = config.environment
    if settings.tasks:
        return settings.tasks
    asked = kinds(settings.use)[: len(settings.use) or None]
    if brought := tuple(task for kind in kinds(settings.use) for task in kind.brought(config)):
        return brought
    return tuple(task for kind in asked for task in kind.default_tasks)


def first_tasks(config: Asking) -> tuple[str, ...]:
    """Of a pre-trained model, where a configuration names no tasks or questions of the user's own. Where it names no
    environment either, they are of those whose prompts are texts to go on with."""
    settings = config.environment
    known = kinds(settings.use)
    if settings.tasks or any(kind.brought(config) for kind in known):
        return ()
    asked = known[: len(settings.use)] if settings.use else [kind for kind in known if kind.continued]
    return tuple(task for kind in asked for task in kind.first_tasks)


def by_kind(config: Asking) -> list[tuple[EnvironmentKind, list[str]]]:
    """The tasks of each environment that has one of them, in the order of the registry. UnknownTaskError."""
    known = kinds(config.environment.use)
    homes = [(task, find(task, known)) for task in tasks_of(config)]
    return [(kind, own) for kind in known if (own := [task for task, home in homes if home is kind])]


def leaving(config: Asking) -> str:
    """What of the user's leaves this machine in completions, as a sentence; nothing where all questions are public."""
    what = " and ".join(said for kind, _ in by_kind(config) if (said := kind.leaves(config)))
    return what and f"completions quote {what}: they leave this machine, and a swarm's name is no lock"


def build_environment(config: Asking, prepare: bool = False) -> Mixture:
    """All environments that the tasks of this node belong to, by the name that questions carry. Close it after use.

    `prepare` starts their processes, which otherwise start with the first question.
    """
    environments = {kind.name: kind.start(own, config) for kind, own in by_kind(config)}
    for environment in environments.values():
        environment.swarm = config.swarm
        if prepare:
            environment.prepare()
    # Also around one: it turns an exception of an environment into a counted skip.
    mixture = Mixture(environments, config.environment.at_once)
    mixture.choose({})
    return mixture


def right_answer(config: Asking, question: Question) -> str:
    """For simulated attackers: anybody can rebuild it. UserError if the environment does not offer it."""
    for kind in kinds(config.environment.use):
        if kind.name == question.environment:
            return kind.answer(question)
    raise UserError(f"attackers know no answers of {question.environment}")


def is_task(name: str) -> bool:
    """Whether a kind of environment that is installed offers this task."""
    dataset, config_id = split_task(name)
    return any(config_id in kind.tasks.get(dataset, ()) for kind in kinds(()))


def conversation(task: str, said: Iterable[str]) -> Iterator[str]:
    """What the environment answers to each line of `said`, which may hold calls, and in the end the reward. UserError
    where a question of this task has one turn, or cannot be played."""
    with closing(build_environment(with_environment(LearningConfig(), tasks=(task,)))) as environment:
        (question,) = environment.sample(EVALUATION, Round(0), 1)
        if environment.turns(question) == 1:
            raise UserError(f"a question of {task} has one turn: swarm-node model eval asks some")
        turns, score = list[Turn](), 0.0
        yield f"environment: {environment.prompts([question])[0]}"
        for line in said:
            turns.append(parse(line.rstrip("\n")))
            (plays,) = environment.play([(question, [turns])])
            played = plays if isinstance(plays, Skipped) else plays[0]
            if isinstance(played, Skipped):
                raise UserError(f"{task} cannot be played: {played.reason}")
            score = played.score
            yield from (f"environment: {printable(text, 4096)}" for text in played.observations[-1])
            if played.done or len(turns) == environment.turns(question):
                break
        yield f"reward {score:g}"
