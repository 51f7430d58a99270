"""`episodes` as a kind of environments: tasks such as bisect/tiny."""

from collections.abc import Sequence
from types import MappingProxyType

from protocol.messages import Question
from swarm_node.environments.episodes import source
from swarm_node.environments.kinds import EnvironmentKind, HasEnvironments
from swarm_node.environments.rewards import RewardRule
from swarm_node.environments.scored import ScoredEnvironment
from swarm_node.rollouts.groups import Tasks
from swarm_node.scoring.client import ScoringClient


class EpisodesKind(EnvironmentKind):
    """Questions of several turns that need no library."""

    name = "episodes"
    tasks: Tasks = MappingProxyType(source.tasks)
    default_tasks = tuple(
        f"{dataset}/{config_id}" for dataset, ids in source.tasks.items() for config_id in ids
    )

    def start(self, tasks: Sequence[str], config: HasEnvironments) -> ScoredEnvironment:
        scoring = ScoringClient(
            f"{__package__}.source", source.version, config.environment.time_limit
        )
        about = self.name, source.version, self.tasks, tasks
        rule = RewardRule(config.environment.scoring)
        return ScoredEnvironment(*about, scoring, rule, turns=source.turns, probe=source.probe)

    def answer(self, question: Question) -> str:
        return source.begin(
            question.dataset, question.config_id, question.seed, question.index
        ).answer


KIND = EpisodesKind()
