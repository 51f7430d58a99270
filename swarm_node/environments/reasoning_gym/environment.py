"""Questions of reasoning-gym as an Environment. The library itself runs in the scoring process
only.

What peers have to agree on, the questions and the scores of answers, has a version and stands in
catalogue.py and scorers/. What stands here, such as which tasks are asked first and how a score
becomes a reward, concerns this node alone.
"""

from collections.abc import Sequence
from importlib import import_module

from protocol.messages import Question
from swarm_node.environments.kinds import (
    EnvironmentKind,
    HasEnvironments,
    UnknownTaskError,
    find,
    split_task,
)
from swarm_node.environments.reasoning_gym.catalogue import (
    EXCLUDED,
    LARGER_TASKS,
    PRETRAINED_TASKS,
    SMALL_TASKS,
    STARTER_TASKS,
    TASKS,
    VERSION,
)
from swarm_node.environments.reasoning_gym.installed import (
    answerable,
    check_answerable,
    is_installed,
    source,
)
from swarm_node.environments.rewards import RewardRule, Scoring
from swarm_node.environments.scored import WHOLE, Answers, ScoredEnvironment
from swarm_node.scoring.client import ScoringClient

NAME = "reasoning_gym"
SCORER_MODULE = "swarm_node.environments.reasoning_gym.scorers.scorers"
# A grid of zeros matches nine tenths of many games of life; a list of guesses holds the answer
PARTIAL = 0.5


class ReasoningGym(ScoredEnvironment):
    """The tasks of one node, each "dataset/config_id", and scores for every task that can be made
    here, since external groups may be of any of them.

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
        check_answerable(tasks)
        client = ScoringClient(source(), VERSION, time_limit, scorers=SCORER_MODULE)
        rule = RewardRule(scoring, PARTIAL)
        super().__init__(NAME, VERSION, answerable(), tasks, client, rule, answers)


class ReasoningGymKind(EnvironmentKind):
    """The registered kind: the data sets of reasoning-gym."""

    name = NAME
    tasks = TASKS
    default_tasks = STARTER_TASKS
    usual = True
    first_tasks = PRETRAINED_TASKS

    @property
    def candidates(self) -> Sequence[str]:
        """What can be made here: without the library, the tasks of the starters."""
        return SMALL_TASKS if is_installed() else STARTER_TASKS

    @property
    def larger_candidates(self) -> Sequence[str]:
        """What can be made here for a larger model; without the library the starters' tasks."""
        return LARGER_TASKS if is_installed() else STARTER_TASKS

    def why_not(self, task: str) -> str | None:
        dataset, _ = split_task(task)
        return f"is not included: {EXCLUDED[dataset]}" if dataset in EXCLUDED else None

    def start(self, tasks: Sequence[str], config: HasEnvironments) -> ReasoningGym:
        settings = config.environment
        return ReasoningGym(
            tasks, settings.scoring, settings.time_limit, Answers.configured(settings)
        )

    def answer(self, question: Question) -> str:
        """Importing the library costs 60 MB and a second, so it is imported when the first attacker
        asks.
        """
        check_answerable([f"{question.dataset}/{question.config_id}"])
        build = import_module(source()).build
        return str(
            build(question.dataset, question.config_id, question.seed, question.index).answer
        )


KIND = ReasoningGymKind()
