"""Puzzles as an Environment: generated ones, rebuilt by any node from their address, and those of a file.

Only sizes that every node can make within the scoring process's budget have addresses. Larger ones are made
ahead, by `python -m swarm_node.extensions.temporal_clue.make`, into a file like that of the published puzzles.
"""

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from protocol.messages import Question
from swarm_node.common.errors import UserError
from swarm_node.environments.answers import WHOLE, Answers
from swarm_node.environments.kinds import Asking, EnvironmentKind, find, split_task
from swarm_node.environments.rewards import RewardRule, Scoring
from swarm_node.environments.scored import ScoredEnvironment
from swarm_node.extensions.temporal_clue.puzzle_file import COMPAT, FILE_NAME, read_puzzles, version_of
from swarm_node.extensions.temporal_clue.settings import TemporalClueConfig
from swarm_node.extensions.temporal_clue.sizes import SIZES, VERSION
from swarm_node.rollouts.groups import Tasks
from swarm_node.scoring.client import Item, ScoringClient
from swarm_node.settings.extended import section_of

NAME = "temporal_clue"  # of the environment in questions
PUBLISHED = "published"  # config id of the puzzles of a file
SOURCE = "swarm_node.extensions.temporal_clue.source"
FILE_SOURCE = "swarm_node.extensions.temporal_clue.puzzle_file:PuzzleFile"
ASKED: Tasks = {NAME: tuple(config_id for config_id, size in SIZES.items() if size.shared)}


class Puzzles(ScoredEnvironment):
    """Puzzles, of which `graded` rewards the share of questions answered rightly, and `exact` only all of them. With
    `published_scorer` scores are those of the published scorer, for evaluation."""

    published_scorer = False

    def _item(self, question: Question, texts: tuple[str, ...] | None) -> Item:
        dataset = COMPAT if self.published_scorer else NAME
        return dataset, question.config_id, question.seed, question.index, texts


def generated(
    tasks: Sequence[str], scoring: Scoring = "graded", time_limit: float = 5.0, answers: Answers = WHOLE
) -> Puzzles:
    """Generated puzzles: tasks temporal_clue/tiny, small and medium."""
    for task in tasks:
        find(task, [KIND])
    client = ScoringClient(SOURCE, VERSION, time_limit)
    return Puzzles(NAME, VERSION, ASKED, tasks, client, RewardRule(scoring), answers)


def of_file(file: Path, scoring: Scoring = "graded", time_limit: float = 5.0) -> Puzzles:
    """Task temporal_clue/published: the puzzles of a JSON file, in an order of each round's own, so that none comes
    twice as long as the file lasts. Only peers with the same file use each other's groups. UserError."""
    count, version = len(read_puzzles(file)), version_of(file)
    client = ScoringClient(f"{FILE_SOURCE}?{file.expanduser().absolute()}", version, time_limit)
    tasks = [f"{NAME}/{PUBLISHED}"]
    environment = Puzzles(FILE_NAME, version, FILE_KIND.tasks, tasks, client, RewardRule(scoring), WHOLE)
    environment.count = count
    return environment


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

    def start(self, tasks: Sequence[str], config: Asking, scorer: str = "") -> Puzzles:
        settings = config.environment
        answers = Answers.configured(settings)
        environment = generated(tasks, settings.scoring, settings.time_limit, answers)
        environment.published_scorer = scorer == PUBLISHED_SCORER
        return environment


class PuzzleFileKind(_Kind):
    """The puzzles of a file."""

    name = FILE_NAME
    tasks: Tasks = MappingProxyType({NAME: (PUBLISHED,)})

    def start(self, tasks: Sequence[str], config: Asking, scorer: str = "") -> Puzzles:
        puzzles = section_of(config, TemporalClueConfig).puzzles
        if puzzles is None:
            raise UserError(f"task {NAME}/{PUBLISHED} needs a file of puzzles: set temporal_clue.puzzles")
        environment = of_file(puzzles, config.environment.scoring, config.environment.time_limit)
        environment.published_scorer = scorer == PUBLISHED_SCORER
        return environment


KIND, FILE_KIND = TemporalClueKind(), PuzzleFileKind()
