"""The questions of a file behind the Environment seam: tasks dataset/train and dataset/held_out."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from swarm_node.common.children import clean_environment
from swarm_node.common.errors import UserError
from swarm_node.environments.kinds import Asking, EnvironmentKind
from swarm_node.extensions.dataset import elsewhere
from swarm_node.extensions.dataset.questions import TRAIN
from swarm_node.extensions.dataset.settings import DatasetConfig
from swarm_node.extensions.dataset.split import SplitEnvironment, tasks_of
from swarm_node.rollouts.groups import Tasks
from swarm_node.scoring.client import ScoringClient, ScoringPool, slow_workers
from swarm_node.settings import EnvironmentConfig, section_of

NAME = "dataset"
SOURCE = "swarm_node.extensions.dataset.source:DatasetSource"
TASKS: Tasks = tasks_of(NAME)


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
    module, what = "swarm_node.extensions.dataset.compile", f"data set {config.file}"
    return Facts.model_validate_json(elsewhere.ask(module, config, out, what, clean_environment()))


class DatasetEnvironment(SplitEnvironment):
    """The questions of one file."""

    def __init__(self, tasks: Sequence[str], config: DatasetConfig, settings: EnvironmentConfig) -> None:
        folder = tempfile.TemporaryDirectory(prefix="swarm-node-dataset-")
        file = Path(folder.name, "questions.json")
        try:
            self.facts = facts = read(config, file)
        except BaseException:
            folder.cleanup()
            raise
        source = f"{SOURCE}?{file}"
        pool = ScoringPool(lambda: ScoringClient(source, facts.version, settings.time_limit), slow_workers())
        super().__init__(NAME, facts.version, facts.held_out, tasks, pool, settings, folder)


class DatasetKind(EnvironmentKind):
    """What is registered: a file that the configuration names."""

    name = NAME
    tasks = TASKS

    def brought(self, config: Asking) -> Sequence[str]:
        return (f"{NAME}/{TRAIN}",) if section_of(config, DatasetConfig).file else ()

    def leaves(self, config: Asking) -> str:
        return f"the questions of {section_of(config, DatasetConfig).file}"

    def start(self, tasks: Sequence[str], config: Asking) -> DatasetEnvironment:
        return DatasetEnvironment(tasks, section_of(config, DatasetConfig), config.environment)


KIND = DatasetKind()
