"""Puzzles as an Environment: generated ones, rebuilt by any node from their address, and those of a file.

Only sizes that every node can make within the scoring process's budget have addresses. Larger ones are made
ahead, by `python -m swarm_node.extensions.temporal_clue.make`, into a file like that of the published puzzles.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType

from protocol.addressing import question_seed
from protocol.messages import PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.kinds import Asking, EnvironmentKind, find, split_task
from swarm_node.environments.rewards import RewardRule, Scoring
from swarm_node.environments.scored import Rewards, ScoredEnvironment
from swarm_node.extensions.temporal_clue import scoring as scorers
from swarm_node.extensions.temporal_clue.published import read_options
from swarm_node.extensions.temporal_clue.settings import TemporalClueConfig
from swarm_node.extensions.temporal_clue.sizes import SIZES, VERSION
from swarm_node.rollouts.groups import Catalogue, Skipped, Tasks
from swarm_node.scoring.client import Item, ScoringClient
from swarm_node.scoring.contract import UNKNOWN_QUESTION
from swarm_node.settings import section_of

NAME, FILE_NAME = "temporal_clue", "temporal_clue_file"  # environment names in questions
PUBLISHED = "published"  # config id of the puzzles of a file
COMPAT = "compat"  # data set of the scoring process's source: the same puzzles under the published scorer
SOURCE = "swarm_node.extensions.temporal_clue.source"
ASKED: Tasks = {NAME: tuple(config_id for config_id, size in SIZES.items() if size.shared)}


class TemporalClue(ScoredEnvironment):
    """Generated puzzles: tasks temporal_clue/tiny, small and medium.

    `graded` rewards the share of questions answered rightly, `exact` only all of them. With `published_scorer` scores
    are those of the published scorer, for evaluation.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        scoring: Scoring = "graded",
        time_limit: float = 5.0,
        published_scorer: bool = False,
    ) -> None:
        for task in tasks:
            find(task, [KIND])
        client = ScoringClient(SOURCE, VERSION, time_limit)
        super().__init__(NAME, VERSION, ASKED, tasks, client, RewardRule(scoring))
        self._dataset = COMPAT if published_scorer else NAME

    def _item(self, question: Question, texts: tuple[str, ...] | None) -> Item:
        return self._dataset, question.config_id, question.seed, question.index, texts


@dataclass(frozen=True)
class FilePuzzle:
    """One puzzle of a file."""

    prompt: str
    solution: dict[str, str]  # letter -> right answer
    options: tuple[str, ...]  # names that an answer may be


class FilePuzzles:
    """Task temporal_clue/published: the puzzles of a JSON file, [{"prompt": ..., "solution": {"A": ...}}, ...].

    The version is a digest of the file, so only peers with the same file use each other's groups. Scored in this
    process: the scorer is string work of ours, and no solver is needed.
    """

    def __init__(self, file: Path, scoring: Scoring = "graded", published_scorer: bool = False) -> None:
        self._puzzles = read_puzzles(file)
        self.count: int | None = len(self._puzzles)
        self.version = "sha256." + hashlib.sha256(file.expanduser().read_bytes()).hexdigest()[:32]
        self.tasks: tuple[tuple[str, str], ...] = ((NAME, PUBLISHED),)
        self._rule, self._published_scorer = RewardRule(scoring), published_scorer
        self.catalogue = Catalogue({FILE_NAME: (self.version, {NAME: (PUBLISHED,)})})

    def prepare(self) -> None:
        pass

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        """Without repetition, as long as the file lasts."""
        seed = question_seed(author, now)
        return [
            Question(
                environment=FILE_NAME, version=self.version, dataset=NAME, config_id=PUBLISHED, seed=seed, index=index
            )
            for index in range(count)
        ]

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        return [self._puzzle(q).prompt if self.catalogue.knows(q) else _unknown() for q in questions]

    def score(self, completions: Sequence[tuple[Question, Sequence[str]]]) -> list[Rewards]:
        return [
            self._rule.rewards([self._score(self._puzzle(q), text) for text in texts])
            if self.catalogue.knows(q)
            else _unknown()
            for q, texts in completions
        ]

    def close(self) -> None:
        pass

    def _puzzle(self, question: Question) -> FilePuzzle:
        order = list(range(len(self._puzzles)))
        Random(f"{FILE_NAME}/{question.seed}").shuffle(order)
        return self._puzzles[order[question.index % len(order)]]

    def _score(self, puzzle: FilePuzzle, text: str) -> float:
        if self._published_scorer:
            return scorers.compat(text, puzzle.solution)
        return scorers.score(text, puzzle.solution, puzzle.options)


def read_puzzles(file: Path) -> list[FilePuzzle]:
    """Raises UserError: one line that names the file."""
    try:
        entries = json.loads(file.expanduser().read_text("utf-8"))
        puzzles = [
            FilePuzzle(
                str(entry["prompt"]),
                dict(entry["solution"]),
                tuple(entry.get("options") or read_options(entry["prompt"], entry["solution"])),
            )
            for entry in entries
        ]
    except FileNotFoundError as error:
        raise UserError(f"puzzle file {file} does not exist") from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"puzzle file {file} is not a JSON list of prompt and solution: {error!r}") from error
    if not puzzles or not all(puzzle.solution for puzzle in puzzles):
        raise UserError(f"puzzle file {file} has no puzzles, or one without a solution")
    return puzzles


def _unknown() -> Skipped:
    return Skipped(UNKNOWN_QUESTION)


PUBLISHED_SCORER = "published scorer"


class _Kind(EnvironmentKind):
    """What both kinds have in common."""

    scorers = ("", PUBLISHED_SCORER)
    evaluated: Scoring = "graded"


class TemporalClueKind(_Kind):
    """Generated puzzles."""

    name = NAME
    tasks: Tasks = ASKED

    def why_not(self, task: str) -> str | None:
        dataset, config_id = split_task(task)
        if dataset != NAME or config_id not in SIZES:
            return None
        return (
            f"takes too long to make on demand: make a file with python -m swarm_node.extensions.temporal_clue.make "
            f"{config_id}, name it as temporal_clue.puzzles, and ask {NAME}/{PUBLISHED}"
        )

    def start(self, tasks: Sequence[str], config: Asking, scorer: str = "") -> TemporalClue:
        settings = config.environment
        return TemporalClue(tasks, settings.scoring, settings.time_limit, scorer == PUBLISHED_SCORER)


class PuzzleFileKind(_Kind):
    """The puzzles of a file."""

    name = FILE_NAME
    tasks: Tasks = MappingProxyType({NAME: (PUBLISHED,)})

    def start(self, tasks: Sequence[str], config: Asking, scorer: str = "") -> FilePuzzles:
        settings, puzzles = config.environment, section_of(config, TemporalClueConfig).puzzles
        if puzzles is None:
            raise UserError(f"task {NAME}/{PUBLISHED} needs a file of puzzles: set temporal_clue.puzzles")
        return FilePuzzles(puzzles, settings.scoring, scorer == PUBLISHED_SCORER)


KIND, FILE_KIND = TemporalClueKind(), PuzzleFileKind()
