"""An environment whose questions have several turns: whoever generates plays them as whoever receives them does."""

from collections.abc import Sequence

from protocol import codec
from protocol.messages import Question, Turn
from swarm_node.environments.rewards import RewardRule
from swarm_node.environments.scored import FINGERPRINT_SEED, WHOLE, Rewards, ScoredEnvironment, skipped
from swarm_node.rollouts.groups import Catalogue, Played, Plays, Skipped, Tasks, ToPlay
from swarm_node.scoring import contract
from swarm_node.scoring.client import Scoring
from swarm_node.scoring.contract import Replay


class EpisodicEnvironment(ScoredEnvironment):
    """Some tasks of an `EpisodeSource`. Its prompts are shown as they are, and its turns are read by itself alone."""

    def __init__(
        self,
        name: str,
        version: str,
        catalogue: Tasks,
        tasks: Sequence[str],
        scoring: Scoring,
        rule: RewardRule,
        turns: int,
        probe: Sequence[contract.Turn],
    ) -> None:
        """`turns` and `probe`: those of the source."""
        super().__init__(name, version, catalogue, tasks, scoring, rule, WHOLE)
        self._known = Catalogue({name: (version, catalogue)}, {name: turns})
        self._probes = tuple(tuple(probe[: end + 1]) for end in range(len(probe)))

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        openings = self.prompts([question for question, _ in asked])
        found: list[Plays] = [each if isinstance(each, Skipped) else () for each in openings]
        places = [place for place, opening in enumerate(openings) if isinstance(opening, str) and asked[place][1]]
        items = [self._item(asked[place][0], tuple(map(_plain, asked[place][1]))) for place in places]
        for place, reply in zip(places, self.scoring.ask(items), strict=True):
            found[place] = self._played(str(openings[place]), reply) if isinstance(reply, list) else skipped(reply)
        return found

    def score(self, completions: Sequence[tuple[Question, Sequence[str]]]) -> list[Rewards]:
        """Of episodes of one turn without calls."""
        plays = self.play([(asked, [(Turn(calls=(), text=text),) for text in texts]) for asked, texts in completions])
        return [
            each if isinstance(each, Skipped) else tuple(played.score for played in each if isinstance(played, Played))
            for each in plays
        ]

    def _played(self, opening: str, reply: Sequence[Replay | Skipped]) -> tuple[Played | Skipped, ...]:
        """What the scoring process said of the episodes of one question, with rewards in place of scores."""
        return tuple(
            Played(each.observations, each.done, self._rule.reward(each.score), _trace(opening, each))
            if isinstance(each, Replay)
            else Skipped(contract.AFTER_THE_END)
            for each in reply
        )

    def _behaviour(self, task: tuple[str, str]) -> list[list[str]]:
        places = [(*task, FINGERPRINT_SEED, index) for index in range(4)]
        asked, played = (self.scoring.ask([(*place, what) for place in places]) for what in (None, self._probes))
        return [
            [opening, *(text for each in found if isinstance(each, Replay) for text in _told(opening, each))]
            if isinstance(opening, str) and isinstance(found, list)
            else []
            for opening, found in zip(asked, played, strict=True)
        ]


def _told(opening: str, replay: Replay) -> tuple[str, str]:
    return f"{abs(replay.score):.6f}", _trace(opening, replay)


def _trace(opening: str, replay: Replay) -> str:
    return codec.trace(opening, replay.observations, replay.done)


def _plain(turns: Sequence[Turn]) -> tuple[contract.Turn, ...]:
    return tuple(
        contract.Turn(turn.text, tuple(contract.Call(call.name, call.arguments) for call in turn.calls))
        for turn in turns
    )
