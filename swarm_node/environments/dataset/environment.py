"""The questions of a file behind the Environment seam: tasks dataset/train and dataset/held_out."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict

from protocol.messages import PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.dataset.questions import HELD_OUT, TRAIN
from swarm_node.environments.kinds import EVALUATION, EnvironmentKind
from swarm_node.environments.rewards import RewardRule
from swarm_node.environments.scored import ScoredEnvironment
from swarm_node.environments.scoring.client import ScoringClient, ScoringPool
from swarm_node.rollouts.catalogue import Catalogue, Tasks
from swarm_node.settings import EnvironmentConfig
from swarm_node.settings.dataset import DatasetConfig

NAME = "dataset"
SOURCE = "swarm_node.environments.dataset.source:DatasetSource"
SECONDS = 600.0  # to read the file, or to load it from the hub
TASKS: Tasks = MappingProxyType({NAME: (TRAIN, HELD_OUT)})


class Facts(BaseModel):
    """What there is to know of a data set without holding it."""

    model_config = ConfigDict(frozen=True)

    version: str
    rows: str  # digest of the questions alone
    verifier: dict[str, Any]
    train: int  # questions
    held_out: int
    left_out: dict[str, int]  # reason -> rows
    duplicates: int
    leaking: int  # held-out questions that share most of their words with training questions
    prompt_chars: tuple[int, int, int]  # least, median, most
    answer_chars: tuple[int, int, int]
    examples: list[tuple[str, str]]


def read(config: DatasetConfig, out: Path | None = None) -> Facts:
    """The facts of a data set; its questions are written to `out`. UserError: one line."""
    if not config.file:
        raise UserError("task dataset/train needs a file of questions: name it by the option file of the data set")
    asked = json.dumps({"dataset": config.model_dump(), "out": str(out or "")})
    command = [sys.executable, "-P", "-m", "swarm_node.environments.dataset.compile"]
    try:
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise UserError(f"data set {config.file} takes more than {SECONDS:.0f} s to read") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it cannot be read"])[-1]
        raise UserError(last[:400] if config.file in last else f"data set {config.file}: {last[:400]}")
    return Facts.model_validate_json(done.stdout)


class DatasetEnvironment(ScoredEnvironment):
    """The questions of one file. Peers ask those to train on; who evaluates gets those held out, each once."""

    def __init__(self, tasks: Sequence[str], settings: EnvironmentConfig) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="swarm-node-dataset-")
        file = Path(self._folder.name, "questions.json")
        try:
            self.facts = facts = read(settings.dataset, file)
        except BaseException:
            self._folder.cleanup()
            raise
        limits = (settings.time_limit, settings.memory_limit)
        source = f"{SOURCE}?{file}"
        pool = ScoringPool(lambda: ScoringClient(source, facts.version, *limits), settings.scoring_processes)
        rule = RewardRule(settings.scoring)
        super().__init__(NAME, facts.version, TASKS, tasks, pool, rule, settings.instruction)
        self.count = facts.held_out  # for `eval`

    @property
    def catalogue(self) -> Catalogue:
        """What peers may ask: a group on a held-out question is refused, or it would be trained on."""
        return Catalogue({NAME: (self.version, {NAME: (TRAIN,)})})

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        if author != EVALUATION and (NAME, HELD_OUT) not in self.tasks:
            return super().sample(author, now, count)
        if not self.facts.held_out:
            raise UserError("no question of the data set is held out: give a larger held_out, or add rows")
        return [self._question((NAME, HELD_OUT), int(now), index) for index in range(count)]

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


class DatasetKind(EnvironmentKind):
    """What is registered: a file that the configuration names."""

    name = NAME
    tasks = TASKS

    def brought(self, settings: EnvironmentConfig) -> Sequence[str]:
        return (f"{NAME}/{TRAIN}",) if settings.dataset.file else ()

    def leaves(self, settings: EnvironmentConfig) -> str:
        return f"the questions of {settings.dataset.file}"

    def start(self, tasks: Sequence[str], settings: EnvironmentConfig, scorer: str = "") -> DatasetEnvironment:
        return DatasetEnvironment(tasks, settings)


KIND = DatasetKind()
