"""An environment from outside: a class with `name`, `version`, `tasks` and `build`, which runs in
the scoring process.

The node itself never imports the class. Another process imports it, prints what it declares, and
ends (`declare` in `scoring/server.py`).

Such classes are other people's (docs/tutorials/own_task.md). So what a class has to have can grow
only by attributes that may be missing, as `turns` and `probe` may.
"""

import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from protocol.limits import MAX_TURNS
from protocol.messages import NAME_PATTERN, Turn
from swarm_node.common.children import clean_environment, ran, run_within
from swarm_node.common.errors import UserError, last_line
from swarm_node.common.loading import absolute
from swarm_node.environments.kinds import EnvironmentKind, HasEnvironments
from swarm_node.environments.rewards import RewardRule
from swarm_node.environments.scored import Answers, ScoredEnvironment
from swarm_node.rollouts.groups import Tasks
from swarm_node.scoring import contract
from swarm_node.scoring.client import (
    KEPT_VARIABLES,
    SET_VARIABLES,
    ScoringClient,
    ScoringPool,
    slow_workers,
)

SECONDS = 60.0  # for importing the class

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=64)]


class Declaration(BaseModel):
    """What a class from outside declares."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    version: Name
    tasks: Annotated[
        dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]], Field(min_length=1)
    ]
    turns: Annotated[int, Field(ge=1, le=MAX_TURNS)]
    probe: Annotated[tuple[Turn, ...], Field(max_length=contract.MAX_PROBE)]

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
    def facts(self) -> Declaration:
        """What the class declares. Raises UserError if it cannot be loaded or declares something
        impossible.
        """
        try:
            done = ran(f"environment {self.target}: the process that loads it", self._asked)
        except subprocess.TimeoutExpired as error:
            raise UserError(
                f"importing the environment {self.target} takes more than {SECONDS:.0f} s: load "
                "files later, not at import"
            ) from error
        if done.returncode:
            last = last_line(done.stderr, 300) or "no message"
            raise UserError(f"environment {self.target} cannot be loaded: {last}")
        try:
            return Declaration.model_validate_json(done.stdout)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"] if part != "[key]")
            raise UserError(f"environment {self.target}: {where}: {first['msg']}") from error

    def _asked(self) -> "subprocess.CompletedProcess[str]":
        server = "swarm_node.scoring.server"
        command = [sys.executable, "-s", "-P", "-B", "-m", server, self.target]
        variables = clean_environment(KEPT_VARIABLES, SET_VARIABLES)
        return run_within(SECONDS, command, env=variables, cwd="/")

    def start(self, tasks: Sequence[str], config: HasEnvironments) -> ScoredEnvironment:
        settings, facts = config.environment, self.facts
        scoring = ScoringPool(
            lambda: ScoringClient(self.target, facts.version, settings.time_limit), slow_workers()
        )
        rule = RewardRule(settings.scoring)
        common = facts.name, facts.version, facts.tasks, tasks, scoring, rule
        if facts.turns > 1:
            return ScoredEnvironment(*common, turns=facts.turns, probe=facts.probe)
        return ScoredEnvironment(*common, Answers.configured(settings))
