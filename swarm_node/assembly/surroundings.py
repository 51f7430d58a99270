"""The composition root, the half without torch: where questions come from, and the swarm.

A node starts these first: judge and network get ready in processes of their own while torch loads in this one.
"""

from collections.abc import Callable
from typing import Any

from protocol import limits
from protocol.admission import AdmissionRules
from protocol.identity import Identity
from protocol.messages import PeerId
from swarm_node.common.errors import UserError
from swarm_node.environments.mixture import Mixture
from swarm_node.environments.reasoning_gym import environment as reasoning_gym
from swarm_node.environments.reasoning_gym.catalogue import STARTER_TASKS
from swarm_node.environments.reasoning_gym.environment import ReasoningGym
from swarm_node.environments.scored import AskingEnvironment
from swarm_node.environments.temporal_clue import environment as clue
from swarm_node.interfaces import Environment
from swarm_node.network.process.remote import RemoteNetwork
from swarm_node.settings import EnvironmentConfig, LearningConfig, NodeConfig

CHARS_PER_TOKEN = 16  # generous, also for other tokenizers; bounds what a peer's group may cost to train on


def build_environment(config: LearningConfig, prepare: bool = False) -> Environment:
    """Every environment this node asks and judges, by the name that questions carry. Close it after use.

    `prepare` starts their judges, which otherwise start with the first question.
    """
    environments = build_environments(config.environment)
    if prepare:
        for environment in environments.values():
            environment.prepare()
    return Mixture(environments)


def build_environments(settings: EnvironmentConfig, published_scorer: bool = False) -> dict[str, AskingEnvironment]:
    """The environments that the tasks belong to. A node takes part in those it has a task of, and in no other.

    `published_scorer` judges puzzles as the published scorer does; for evaluation.
    """
    tasks = settings.tasks or STARTER_TASKS
    bounds = settings.time_limit, settings.memory_limit
    published = [task for task in tasks if task == f"{clue.NAME}/{clue.PUBLISHED}"]
    puzzles = [task for task in tasks if task.startswith(f"{clue.NAME}/") and task not in published]
    others = [task for task in tasks if task not in published and task not in puzzles]
    if published and settings.puzzles is None:
        raise UserError(f"task {published[0]} needs a file of puzzles: set the option puzzles")
    environments: dict[str, AskingEnvironment] = {}
    if others:
        environments[reasoning_gym.NAME] = ReasoningGym(
            others, settings.scoring, *bounds, settings.instruction, settings.judges
        )
    if puzzles:
        environments[clue.NAME] = clue.TemporalClue(
            puzzles, settings.scoring, *bounds, settings.instruction, published_scorer
        )
    if published and settings.puzzles:
        environments[clue.FILE_NAME] = clue.FilePuzzles(
            settings.puzzles, settings.scoring, settings.instruction, published_scorer
        )
    return environments


def build_rules(config: LearningConfig, environment: Environment, own_id: PeerId) -> AdmissionRules:
    """What this node lets in from the network."""
    generation = config.generation
    return AdmissionRules(
        swarm=config.swarm,
        own_id=own_id,
        knows=environment.knows,
        max_completions=min(limits.MAX_COMPLETIONS, 2 * generation.num_generations),
        max_completion_chars=min(limits.MAX_COMPLETION_CHARS, CHARS_PER_TOKEN * generation.max_completion_length),
    )


def build_network(
    config: NodeConfig, identity: Identity, environment: Environment, progress: Callable[[], dict[str, Any]]
) -> RemoteNetwork:
    """The swarm, not entered yet. `progress`: what training says of itself."""
    rules = build_rules(config, environment, identity.peer_id)
    want = config.network.pull or config.round.external_groups
    return RemoteNetwork(identity, config.home.expanduser(), config.network, rules, want, progress)
