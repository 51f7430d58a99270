"""Puzzles behind the Environment seam: generated ones, rebuilt by any node from their address, and those of a file.

Only sizes that every node makes within the judge's budget are asked for by address. Larger ones are made ahead, by
`python -m swarm_node.environments.temporal_clue.make`, into a file like that of the published puzzles.
"""

import difflib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from protocol.addressing import question_seed
from protocol.messages import PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.scored import EXACT_FROM, Rewards, ScoredEnvironment, Scoring, UnknownTaskError
from swarm_node.environments.scoring.client import Item, ScoringClient
from swarm_node.environments.scoring.contract import UNKNOWN_QUESTION
from swarm_node.environments.temporal_clue import scoring as scorers
from swarm_node.environments.temporal_clue.published import read_options
from swarm_node.environments.temporal_clue.sizes import SIZES, VERSION
from swarm_node.rollouts.groups import Skipped

NAME, FILE_NAME = "temporal_clue", "temporal_clue_file"  # what questions carry
PUBLISHED = "published"  # config id of the puzzles of a file
COMPAT = "compat"  # data set of the judge's source: the same puzzles under the published scorer
SOURCE = "swarm_node.environments.temporal_clue.source"
ASKED = {NAME: tuple(config_id for config_id, size in SIZES.items() if size.shared)}


class TemporalClue(ScoredEnvironment):
    """Generated puzzles: tasks temporal_clue/tiny, small and medium.

    `graded` pays the share of questions answered rightly, `exact` only all of them. `published_scorer` judges as the
    published scorer does; for evaluation.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        scoring: Scoring = "graded",
        time_limit: float = 5.0,
        memory_limit: int = 1024,
        instruction: str = "",
        published_scorer: bool = False,
    ) -> None:
        judge = ScoringClient(SOURCE, VERSION, time_limit, memory_limit)
        super().__init__(NAME, VERSION, ASKED, [parse_task(task) for task in tasks], judge, scoring, instruction)
        self._dataset = COMPAT if published_scorer else NAME

    def _item(self, question: Question, texts: tuple[str, ...] | None) -> Item:
        return self._dataset, question.config_id, question.seed, question.index, texts


def parse_task(name: str) -> tuple[str, str]:
    """Raises UnknownTaskError: one line."""
    config_id = name.removeprefix(f"{NAME}/")
    if config_id in ASKED[NAME]:
        return NAME, config_id
    if config_id in SIZES:
        raise UnknownTaskError(
            f"task {name!r} takes too long to make on demand: make a file with python -m swarm_node.environment."
            f"temporal_clue.make {config_id}, name it as environment.puzzles, and ask {NAME}/{PUBLISHED}"
        )
    close = difflib.get_close_matches(config_id, [*ASKED[NAME], PUBLISHED], n=1, cutoff=0.0)
    raise UnknownTaskError(f"unknown task {name!r}: did you mean '{NAME}/{close[0]}'?")


@dataclass(frozen=True)
class FilePuzzle:
    """One puzzle of a file."""

    prompt: str
    solution: dict[str, str]  # letter -> right answer
    options: tuple[str, ...]  # names that an answer may be


class FilePuzzles:
    """Task temporal_clue/published: the puzzles of a JSON file, [{"prompt": ..., "solution": {"A": ...}}, ...].

    The version is a digest of the file, so peers understand each other's questions where they have the same file.
    Judged in this process: the scorer is string work of ours, and no solver is needed.
    """

    def __init__(
        self, file: Path, scoring: Scoring = "graded", instruction: str = "", published_scorer: bool = False
    ) -> None:
        self._puzzles = read_puzzles(file)
        self.count = len(self._puzzles)
        self.version = "sha256." + hashlib.sha256(file.expanduser().read_bytes()).hexdigest()[:32]
        self.tasks: tuple[tuple[str, str], ...] = ((NAME, PUBLISHED),)
        self._exact, self._published_scorer = scoring == "exact", published_scorer
        self._instruction = f"\n\n{instruction}" if instruction else ""

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

    def knows(self, question: Question) -> bool:
        named = question.environment, question.version, question.dataset, question.config_id
        return named == (FILE_NAME, self.version, NAME, PUBLISHED)

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        return [self._puzzle(q).prompt + self._instruction if self.knows(q) else _unknown() for q in questions]

    def score(self, answers: Sequence[tuple[Question, Sequence[str]]]) -> list[Rewards]:
        return [
            tuple(self._score(self._puzzle(q), text) for text in texts) if self.knows(q) else _unknown()
            for q, texts in answers
        ]

    def close(self) -> None:
        pass

    def _puzzle(self, question: Question) -> FilePuzzle:
        order = list(range(self.count))
        Random(f"{FILE_NAME}/{question.seed}").shuffle(order)
        return self._puzzles[order[question.index % self.count]]

    def _score(self, puzzle: FilePuzzle, text: str) -> float:
        if self._published_scorer:
            share = scorers.compat(text, puzzle.solution)
        else:
            share = scorers.score(text, puzzle.solution, puzzle.options)
        return float(share >= EXACT_FROM) if self._exact else share


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
