"""Several environments as one."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from protocol.messages import PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.kinds import AskingEnvironment
from swarm_node.rollouts.groups import Catalogue, Plays, Skipped, ToPlay
from swarm_node.scoring.contract import UNKNOWN_QUESTION

LEARNED = 0.9  # of held-out questions: the task makes room for the next

A = TypeVar("A")
R = TypeVar("R")


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
