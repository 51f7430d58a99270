"""`second_try` as a kind of environments: every task of reasoning-gym in two turns, such as
second_try.gcd/easy.
"""

from collections.abc import Sequence
from types import MappingProxyType

from protocol.messages import Question
from swarm_node.environments.kinds import EnvironmentKind, HasEnvironments
from swarm_node.environments.reasoning_gym import catalogue
from swarm_node.environments.reasoning_gym.environment import KIND as REASONING_GYM
from swarm_node.environments.reasoning_gym.environment import PARTIAL
from swarm_node.environments.reasoning_gym.installed import answerable, check_answerable
from swarm_node.environments.rewards import RewardRule
from swarm_node.environments.scored import Answers, ScoredEnvironment
from swarm_node.rollouts.groups import Tasks
from swarm_node.scoring.client import ScoringClient
from swarm_node.scoring.contract import Turn

PREFIX = "second_try."  # before the name of a data set of reasoning-gym


class SecondTryKind(EnvironmentKind):
    """Every task of reasoning-gym, with a second try."""

    name = "second_try"
    tasks: Tasks = MappingProxyType(
        {PREFIX + dataset: ids for dataset, ids in catalogue.TASKS.items()}
    )
    default_tasks = tuple(PREFIX + task for task in catalogue.STARTER_TASKS)

    def start(self, tasks: Sequence[str], config: HasEnvironments) -> ScoredEnvironment:
        settings, version = config.environment, f"2-{catalogue.VERSION}"
        scoring = ScoringClient(f"{__package__}.second_try", version, settings.time_limit)
        check_answerable([task.removeprefix(PREFIX) for task in tasks])
        known = {PREFIX + dataset: ids for dataset, ids in answerable().items()}
        about, rule = (self.name, version, known, tasks), RewardRule(settings.scoring, PARTIAL)
        return ScoredEnvironment(
            *about, scoring, rule, Answers.configured(settings), 2, (Turn(""), Turn("0"))
        )

    def answer(self, question: Question) -> str:
        return REASONING_GYM.answer(
            question.model_copy(update={"dataset": question.dataset.removeprefix(PREFIX)})
        )


KIND = SecondTryKind()
