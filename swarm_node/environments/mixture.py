"""Several environments as one: a question goes to the environment whose name it carries."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from protocol.messages import PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.kinds import AskingEnvironment
from swarm_node.rollouts.groups import Catalogue, Skipped
from swarm_node.scoring.contract import UNKNOWN_QUESTION

LEARNED = 0.9  # of held-out questions: the task makes room for the next

A = TypeVar("A")
R = TypeVar("R")


class Mixture:
    """Takes an equal share of the questions from each environment. All peers must use the same names."""

    def __init__(self, environments: Mapping[str, AskingEnvironment], at_once: int = 0) -> None:
        """`at_once`: tasks of each that are asked at a time; 0 for all."""
        if not environments:
            raise ValueError("a mixture of no environments")
        self._environments, self._at_once = dict(environments), at_once

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
        joined = [each.catalogue.environments for each in self._environments.values()]
        return Catalogue({name: entry for environments in joined for name, entry in environments.items()})

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        results: list[str | Skipped] = [Skipped(UNKNOWN_QUESTION)] * len(questions)
        for name, places in self._routes([question.environment for question in questions]).items():
            asked = [questions[place] for place in places]
            replies = _guarded(self._environments[name].prompts, asked)
            for place, reply in zip(places, replies, strict=True):
                results[place] = reply
        return results

    def score(self, completions: Sequence[tuple[Question, Sequence[str]]]) -> list[tuple[float, ...] | Skipped]:
        results: list[tuple[float, ...] | Skipped] = [Skipped(UNKNOWN_QUESTION)] * len(completions)
        for name, places in self._routes([question.environment for question, _ in completions]).items():
            replies = _guarded(self._environments[name].score, [completions[place] for place in places])
            for place, reply in zip(places, replies, strict=True):
                results[place] = reply
        return results

    def close(self) -> None:
        for environment in self._environments.values():
            environment.close()

    def _routes(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Environment name -> positions of its questions, without unknown names."""
        routes: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            if name in self._environments:
                routes.setdefault(name, []).append(place)
        return routes


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
