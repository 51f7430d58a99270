"""The questions of a file behind the Environment seam: tasks dataset/train and dataset/held_out."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from swarm_node.common.errors import UserError, printable
from swarm_node.environments import elsewhere
from swarm_node.environments.dataset.hub import HUB, variables
from swarm_node.environments.dataset.questions import MARKS, NEVER
from swarm_node.environments.dataset.source import SOURCE
from swarm_node.environments.kinds import EnvironmentKind, HasEnvironments
from swarm_node.environments.rewards import DIGITS
from swarm_node.environments.scored import Written
from swarm_node.environments.split import TRAIN
from swarm_node.environments.split_environment import SplitEnvironment, tasks_of
from swarm_node.rollouts.groups import Tasks
from swarm_node.scoring.client import ScoringClient, ScoringPool, slow_workers
from swarm_node.settings import EnvironmentConfig
from swarm_node.settings.questions import DatasetConfig

NAME = "dataset"
TASKS: Tasks = tasks_of(NAME)


class Facts(BaseModel):
    """Facts about a data set, for a process that does not hold its rows."""

    model_config = ConfigDict(frozen=True)

    version: str
    reads: tuple[str, str]  # columns of question and answer
    rows: str  # digest of the questions alone
    verifier: dict[str, Any]
    train: int  # questions
    held_out: int
    left_out: dict[str, int]  # reason -> rows
    lines: dict[str, list[int]]  # reason -> lines of the first such rows
    duplicates: int
    hidden: int = 0  # questions whose options the template does not show
    hidden_options: str = ""  # columns of these options
    contradicting: int = 0  # rows whose question has another answer in a row before
    contradicting_lines: list[int] = []  # of the first such rows
    tried: int = 0  # rows whose reference answers a function of the user's was tried on
    refused: int = 0  # of them, those that it does not take for right
    refused_lines: list[int] = []
    leaking: int  # held-out questions that share most of their words with training questions
    prompt_chars: tuple[int, int, int]  # least, median, most
    answer_chars: tuple[int, int, int]
    examples: list[tuple[str, str]]
    besides: list[str] = []  # what else the user should know, such as a hub that does not answer

    def notes(self) -> Iterator[tuple[bool, str]]:
        """What to tell the user of this data set, as pairs (is it a warning, the line): how its
        file is read, which rows are skipped, and what to mend.
        """
        compared = f"{self.verifier['name']} {MARKS.get(self.verifier.get('form', ''), '')}".strip()
        rows = f"{self.train + self.held_out} rows, {self.held_out} held out"
        yield (
            False,
            f"reads {' -> '.join(printable(name, 80) for name in self.reads)}, {compared}: {rows}",
        )
        for reason, count in self.left_out.items():
            lines = _lines(self.lines[reason], count)
            if reason == NEVER:
                yield (
                    True,
                    (
                        f"{count} of {count + self.train + self.held_out} rows can never be "
                        f"correct, since {self.verifier['name']} refuses their own answers, and "
                        f"are skipped: {lines}"
                    ),
                )
            else:
                yield False, f"{count} skipped, {reason}: {lines}"
        if self.hidden:
            options = printable(self.hidden_options, 40)
            yield (
                True,
                (
                    f"{self.hidden} questions have options in {options} that no prompt shows: "
                    "compare with --dataset.verifier choice without a template, or put them "
                    "into one"
                ),
            )
        if self.contradicting:
            lines = _lines(self.contradicting_lines, self.contradicting)
            yield (
                True,
                (
                    f"{self.contradicting} rows give a question of a row before another answer: "
                    f"{lines}; both are used, so correct one of them"
                ),
            )
        if self.refused:
            lines = _lines(self.refused_lines, self.refused)
            yield (
                True,
                (
                    f"the verifier rejects {self.refused} of {self.tried} reference answers "
                    "that were "
                    f"tried: {lines}; check that this is intended"
                ),
            )
        for text in self.besides:
            yield True, printable(text)
        if not self.held_out:
            yield (
                True,
                (
                    "no question is held out, so none can show progress: raise "
                    "--dataset.held-out, or add rows"
                ),
            )


def _lines(first: Sequence[int], count: int) -> str:
    """The lines as a person reads them, of which the first are known."""
    more = ", ..." if count > len(first) else ""
    return f"line{'s' * (count > 1)} {', '.join(map(str, first))}{more}"


def read(config: DatasetConfig, out: Path | None = None) -> Facts:
    """The facts of a data set; its questions are written to `out`, if given. UserError: one
    line.
    """
    if not config.file:
        raise UserError("task dataset/train needs a file of questions: name it with --dataset.file")
    module, what = "swarm_node.environments.dataset.compile", f"data set {config.file}"
    said = elsewhere.ask(module, config, out, what, variables(config.file))
    return Facts.model_validate_json(said)


class DatasetEnvironment(SplitEnvironment):
    """The questions of one file."""

    def __init__(
        self, tasks: Sequence[str], config: DatasetConfig, settings: EnvironmentConfig
    ) -> None:
        folder = tempfile.TemporaryDirectory(prefix="swarm-node-dataset-")
        file = Path(folder.name, "questions.json")
        try:
            self.facts = facts = read(config, file)
        except BaseException:
            folder.cleanup()
            raise
        source = f"{SOURCE}?{file}"
        pool = ScoringPool(
            lambda: ScoringClient(source, facts.version, settings.time_limit), slow_workers()
        )
        form = facts.verifier.get("form", "whole")
        super().__init__(NAME, facts.version, facts.held_out, tasks, pool, settings, folder, form)
        self.notes, self.salt = tuple(facts.notes()), config.salt.get_secret_value()
        self._weight = config.form_weight if settings.scoring == "graded" else 0.0

    def _reward(self, score: float, turns: Written) -> float:
        """The reward, mixed with what form and length earn, so that a right answer earns more than
        any wrong one.
        """
        reward = super()._reward(score, turns)
        if not self._weight:
            return reward
        text = turns[0].text
        formed = float(bool(self._answers.read(text).strip()))
        short = min(1.0, max(0.0, 2.0 - len(text) / self.facts.answer_chars[2]))
        return round((1.0 - self._weight) * reward + self._weight * (formed + short) / 2, DIGITS)


class DatasetKind(EnvironmentKind):
    """The kind that is registered: the questions of a file that the configuration names."""

    name = NAME
    tasks = TASKS

    def brought(self, config: HasEnvironments) -> Sequence[str]:
        return (f"{NAME}/{TRAIN}",) if config.dataset.file else ()

    def leaves(self, config: HasEnvironments) -> str:
        return f"the questions of {config.dataset.file}"

    def fetch(self, config: HasEnvironments) -> None:
        if (own := config.dataset).file.startswith(HUB):
            read(own)  # which keeps a copy

    def start(self, tasks: Sequence[str], config: HasEnvironments) -> DatasetEnvironment:
        return DatasetEnvironment(tasks, config.dataset, config.environment)


KIND = DatasetKind()
