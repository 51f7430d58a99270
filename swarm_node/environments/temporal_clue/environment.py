"""Puzzles as an Environment: generated ones, rebuilt by any node from their address, and those of a
file.

Only sizes that every node can make within the scoring process's budget have addresses. Larger ones
are made ahead, by `python -m swarm_node.environments.temporal_clue.make`, into a file like that of
the published puzzles.
"""

from collections.abc import Sequence
from types import MappingProxyType

from swarm_node.common.errors import UserError
from swarm_node.environments.kinds import EnvironmentKind, HasEnvironments, split_task
from swarm_node.environments.rewards import RewardRule, Scoring
from swarm_node.environments.scored import Answers, ScoredEnvironment
from swarm_node.environments.temporal_clue.puzzle_file import FILE_NAME, read_puzzles, version_of
from swarm_node.environments.temporal_clue.sizes import SIZES, VERSION
from swarm_node.rollouts.groups import Tasks
from swarm_node.scoring.client import ScoringClient

NAME = "temporal_clue"  # the environment's name in questions
PUBLISHED = "published"  # config id of the puzzles of a file
SOURCE = "swarm_node.environments.temporal_clue.text"
FILE_SOURCE = "swarm_node.environments.temporal_clue.puzzle_file:PuzzleFile"
ASKED: Tasks = {NAME: tuple(config_id for config_id, size in SIZES.items() if size.shared)}


class _Kind(EnvironmentKind):
    """What both kinds have in common. `graded` rewards the share of questions answered correctly,
    `exact` only all of them.
    """

    evaluated: Scoring = "graded"

    def puzzles(
        self,
        source: str,
        version: str,
        tasks: Sequence[str],
        config: HasEnvironments,
        answers: Answers,
    ) -> ScoredEnvironment:
        """An environment of the puzzles of a source."""
        client = ScoringClient(source, version, config.environment.time_limit)
        rule = RewardRule(config.environment.scoring)
        return ScoredEnvironment(self.name, version, self.tasks, tasks, client, rule, answers)


class TemporalClueKind(_Kind):
    """Generated puzzles."""

    name = NAME
    tasks: Tasks = ASKED

    def why_not(self, task: str) -> str | None:
        dataset, config_id = split_task(task)
        if dataset != NAME or config_id not in SIZES:
            return None
        return (
            "takes too long to make on demand: make a file with python -m "
            f"swarm_node.environments.temporal_clue.make {config_id}, "
            f"name it as temporal_clue.puzzles, and ask {NAME}/{PUBLISHED}"
        )

    def start(self, tasks: Sequence[str], config: HasEnvironments) -> ScoredEnvironment:
        answers = Answers.configured(config.environment)
        return self.puzzles(SOURCE, VERSION, tasks, config, answers)


class PuzzleFileKind(_Kind):
    """The puzzles of a file. Each round has an order of its own, and asks no puzzle twice unless
    the file has too few. Only peers with the same file use each other's groups.
    """

    name = FILE_NAME
    tasks: Tasks = MappingProxyType({NAME: (PUBLISHED,)})

    def start(self, tasks: Sequence[str], config: HasEnvironments) -> ScoredEnvironment:
        file = config.temporal_clue.puzzles
        if file is None:
            raise UserError(
                f"task {NAME}/{PUBLISHED} needs a file of puzzles: give "
                f"--temporal-clue.puzzles FILE, or a task without one, such as {NAME}/tiny"
            )
        count, source = len(read_puzzles(file)), f"{FILE_SOURCE}?{file.expanduser().absolute()}"
        tasks = [f"{NAME}/{PUBLISHED}"]
        # Published prompts ask for "final answers", so that a completion may reason before them
        answers = Answers.configured(config.environment, "anywhere")
        environment = self.puzzles(source, version_of(file), tasks, config, answers)
        environment.count = count
        return environment


KIND, FILE_KIND = TemporalClueKind(), PuzzleFileKind()
