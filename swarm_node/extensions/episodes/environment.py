"""`episodes` as a kind of environment: tasks such as bisect/tiny."""

from collections.abc import Sequence
from types import MappingProxyType

from swarm_node.environments.episodic import EpisodicEnvironment
from swarm_node.environments.kinds import Asking, EnvironmentKind
from swarm_node.environments.rewards import RewardRule
from swarm_node.extensions.episodes import source
from swarm_node.rollouts.groups import Tasks
from swarm_node.scoring.client import ScoringClient

SOURCE = "swarm_node.extensions.episodes.source"


class EpisodesKind(EnvironmentKind):
    """What is registered: every task of the source."""

    name = "episodes"
    tasks: Tasks = MappingProxyType(source.tasks)

    @property
    def default_tasks(self) -> Sequence[str]:
        return [f"{dataset}/{config_id}" for dataset, config_ids in self.tasks.items() for config_id in config_ids]

    def start(self, tasks: Sequence[str], config: Asking) -> EpisodicEnvironment:
        settings = config.environment
        scoring, rule = ScoringClient(SOURCE, source.version, settings.time_limit), RewardRule(settings.scoring)
        shown = self.name, source.version, self.tasks
        return EpisodicEnvironment(*shown, tasks, scoring, rule, source.turns, source.probe)


KIND = EpisodesKind()
