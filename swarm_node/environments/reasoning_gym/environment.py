"""Questions of reasoning-gym as an Environment. The library itself runs in the scoring process
only.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from protocol.messages import Question
from swarm_node.common.errors import UserError
from swarm_node.common.wheels import Wheel, unpacked
from swarm_node.environments.kinds import (
    Asking,
    EnvironmentKind,
    UnknownTaskError,
    find,
    split_task,
)
from swarm_node.environments.reasoning_gym.catalogue import (
    EXCLUDED,
    LIBRARY,
    PRETRAINED_TASKS,
    STARTER_TASKS,
    TASKS,
    VERSION,
)
from swarm_node.environments.rewards import RewardRule, Scoring
from swarm_node.environments.scored import WHOLE, Answers, ScoredEnvironment
from swarm_node.scoring.client import ScoringClient

NAME = "reasoning_gym"
SOURCE = "swarm_node.environments.reasoning_gym.source"
SCORER_MODULE = "swarm_node.environments.reasoning_gym.scorers.scorers"
DIGEST = "7f17a3eddb13c015d7d4a755ed576a061df889faf9468bcc2cca334ebe9e0435"
WHEEL = Wheel("reasoning-gym", f"reasoning_gym-{LIBRARY}-py3-none-any.whl", 6_985_897, DIGEST)
# A grid of zeros matches nine tenths of many games of life; a list of guesses holds the answer
PARTIAL = 0.5


def library(tasks: Sequence[str] = ()) -> str:
    """The library's cache folder, with an empty pycosat; "" if installed. UserError if it or its
    solver is missing.
    """
    if find_spec("reasoning_gym"):
        return ""
    if any(split_task(task)[0] == "zebra_puzzles" for task in tasks):
        raise UserError(
            "zebra_puzzles needs a C compiler, then: pip install 'textswarm[gym]'; or take other "
            "tasks"
        )
    return str(unpacked(WHEEL, "pycosat.py"))


class ReasoningGym(ScoredEnvironment):
    """The tasks of one node, each "dataset/config_id", and scores for every task of the catalogue,
    since external groups may be of any of them.

    `time_limit` is seconds of wall clock per question and its completions.
    """

    def __init__(
        self,
        tasks: Sequence[str] = STARTER_TASKS,
        scoring: Scoring = "exact",
        time_limit: float = 5.0,
        answers: Answers = WHOLE,
    ) -> None:
        if not tasks:
            raise UnknownTaskError(
                "no tasks: name at least one, e.g. chain_sum/easy, or remove environment.tasks"
            )
        for task in tasks:
            find(task, [KIND])
        client = ScoringClient(SOURCE, VERSION, time_limit, scorers=SCORER_MODULE)
        client.library = library(tasks)
        super().__init__(NAME, VERSION, TASKS, tasks, client, RewardRule(scoring, PARTIAL), answers)


class ReasoningGymKind(EnvironmentKind):
    """The registered kind: the data sets of reasoning-gym."""

    name = NAME
    tasks = TASKS
    default_tasks = STARTER_TASKS
    usual = True
    first_tasks = PRETRAINED_TASKS

    def why_not(self, task: str) -> str | None:
        dataset, _ = split_task(task)
        return f"is not included: {EXCLUDED[dataset]}" if dataset in EXCLUDED else None

    def start(self, tasks: Sequence[str], config: Asking) -> ReasoningGym:
        settings = config.environment
        return ReasoningGym(
            tasks, settings.scoring, settings.time_limit, Answers.configured(settings)
        )

    def answer(self, question: Question) -> str:
        """Importing the library costs 60 MB and a second, so it is imported when the first attacker
        asks.
        """
        if place := library():
            sys.path.append(place)
        from swarm_node.environments.reasoning_gym.source import build

        return str(
            build(question.dataset, question.config_id, question.seed, question.index).entry[
                "answer"
            ]
        )


KIND = ReasoningGymKind()
