"""An environment from outside: a class with `name`, `version`, `tasks` and `build`, which runs in
the scoring process.

The node itself never imports the class. Another process imports it, prints what it declares, and
ends (`declare` in `scoring/server.py`).
"""

import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from protocol import codec
from protocol.limits import MAX_TURNS
from protocol.messages import NAME_PATTERN, Question, Turn
from swarm_node.common.batched import paired
from swarm_node.common.children import clean_environment, ran
from swarm_node.common.errors import UserError, last_line
from swarm_node.common.loading import absolute
from swarm_node.environments.kinds import Asking, EnvironmentKind
from swarm_node.environments.rewards import RewardRule
from swarm_node.environments.scored import (
    FINGERPRINT_SEED,
    Answers,
    Rewards,
    ScoredEnvironment,
    skipped,
)
from swarm_node.rollouts.groups import Played, Plays, Skipped, Tasks, ToPlay
from swarm_node.scoring import contract
from swarm_node.scoring.client import (
    KEPT_VARIABLES,
    SET_VARIABLES,
    ScoringClient,
    ScoringPool,
    slow_workers,
)
from swarm_node.scoring.contract import AFTER_THE_END, Replay

SECONDS = 60.0  # for importing the class

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=64)]


class Facts(BaseModel):
    """What a class from outside declares."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    version: Name
    tasks: Annotated[
        dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]], Field(min_length=1)
    ]
    turns: Annotated[int, Field(ge=1, le=MAX_TURNS)]
    probe: Annotated[tuple[contract.Turn, ...], Field(max_length=contract.MAX_PROBE)]

    @model_validator(mode="after")
    def _probed(self) -> Self:
        if self.turns > 1 and not self.probe:
            raise ValueError("an episode of several turns has a probe")
        return self


class PluggedKind(EnvironmentKind):
    """The environment of `target`: module:Class, or FILE.py:Class."""

    def __init__(self, target: str) -> None:
        self.target = absolute(target)

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def tasks(self) -> Tasks:
        return self.facts.tasks

    @property
    def default_tasks(self) -> Sequence[str]:
        return [
            f"{dataset}/{config_id}"
            for dataset, config_ids in self.tasks.items()
            for config_id in config_ids
        ]

    @cached_property
    def facts(self) -> Facts:
        """What the class declares. UserError if it cannot be loaded or declares something
        impossible.
        """
        try:
            done = ran(f"environment {self.target}: the process that loads it", self._asked)
        except subprocess.TimeoutExpired as error:
            raise UserError(
                f"environment {self.target}: its import takes more than {SECONDS:.0f} s: load "
                "files later, not at import"
            ) from error
        if done.returncode:
            last = last_line(done.stderr, 300) or "no message"
            raise UserError(f"environment {self.target} cannot be loaded: {last}")
        try:
            return Facts.model_validate_json(done.stdout)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"] if part != "[key]")
            raise UserError(f"environment {self.target}: {where}: {first['msg']}") from error

    def _asked(self) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-s", "-P", "-B", "-m", "swarm_node.scoring.server", self.target],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env=clean_environment(KEPT_VARIABLES, SET_VARIABLES),
            cwd="/",
        )

    def start(self, tasks: Sequence[str], config: Asking) -> ScoredEnvironment:
        settings, facts = config.environment, self.facts
        scoring = ScoringPool(
            lambda: ScoringClient(self.target, facts.version, settings.time_limit), slow_workers()
        )
        common = (
            facts.name,
            facts.version,
            facts.tasks,
            tasks,
            scoring,
            RewardRule(settings.scoring),
        )
        if facts.turns > 1:
            return EpisodicEnvironment(*common, turns=facts.turns, probe=facts.probe)
        return ScoredEnvironment(*common, Answers.configured(settings))


class EpisodicEnvironment(ScoredEnvironment):
    """Some tasks of an `EpisodeSource`. The source alone reads the turns, so no `Answers` apply."""

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        openings = self.bare([question for question, _ in asked])
        found: list[Plays] = [each if isinstance(each, Skipped) else () for each in openings]
        places = [
            place
            for place, opening in enumerate(openings)
            if isinstance(opening, str) and asked[place][1]
        ]
        items = [
            self._item(asked[place][0], tuple(map(_plain, asked[place][1]))) for place in places
        ]
        for place, reply in paired(places, self.scoring.ask(items)):
            found[place] = (
                self._played(str(openings[place]), reply)
                if isinstance(reply, list)
                else skipped(reply)
            )
        return found

    def score(self, completions: Sequence[tuple[Question, Sequence[str]]]) -> list[Rewards]:
        """The rewards of episodes of one turn without calls."""
        plays = self.play(
            [
                (asked, [(Turn(calls=(), text=text),) for text in texts])
                for asked, texts in completions
            ]
        )
        return [
            each
            if isinstance(each, Skipped)
            else tuple(played.score for played in each if isinstance(played, Played))
            for each in plays
        ]

    def _played(
        self, opening: str, reply: Sequence[Replay | Skipped]
    ) -> tuple[Played | Skipped, ...]:
        """The scoring process's replays of the episodes of one question, with rewards in place of
        scores.
        """
        return tuple(
            Played(
                each.observations, each.done, self._rule.reward(each.score), _trace(opening, each)
            )
            if isinstance(each, Replay)
            else Skipped(AFTER_THE_END)
            for each in reply
        )

    def _behaviour(self, task: tuple[str, str]) -> list[list[str]]:
        places = [(*task, FINGERPRINT_SEED, index) for index in range(4)]
        asked, played = (
            self.scoring.ask([(*place, what) for place in places]) for what in (None, self._probes)
        )
        return [
            [
                opening,
                *(
                    text
                    for each in found
                    if isinstance(each, Replay)
                    for text in _told(opening, each)
                ),
            ]
            if isinstance(opening, str) and isinstance(found, list)
            else []
            for opening, found in paired(asked, played)
        ]


def _told(opening: str, replay: Replay) -> tuple[str, str]:
    return f"{abs(replay.score):.6f}", _trace(opening, replay)


def _trace(opening: str, replay: Replay) -> str:
    return codec.trace(opening, replay.observations, replay.done)


def _plain(turns: Sequence[Turn]) -> tuple[contract.Turn, ...]:
    return tuple(
        contract.Turn(
            turn.text, tuple(contract.Call(call.name, call.arguments) for call in turn.calls)
        )
        for turn in turns
    )
