"""External groups scored beside training: an environment of their own, so that a slow one holds up no local group."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from time import monotonic

from protocol.messages import PeerId, Round
from swarm_node.environments.registry import build_environment, with_environment
from swarm_node.node.round import score_external
from swarm_node.rollouts.pool import ExternalScoring, ScoringAhead
from swarm_node.settings import LearningConfig

EXTERNAL_SHARE = 5  # an external group may take a fifth of the time of a local one: its author may be hostile
WARMING = 8  # questions that are built first: a process takes seconds to start, and that is no group's doing


@contextmanager
def scoring_ahead(config: LearningConfig, peer_id: PeerId) -> Iterator[ExternalScoring]:
    """In a thread, until the context ends."""
    environment = build_environment(external_side(config), prepare=True)

    def warm() -> None:
        environment.prompts(environment.sample(peer_id, Round(0), WARMING))

    scoring = ScoringAhead(partial(score_external, environment), monotonic, Random(), warm)
    scoring.start()
    try:
        yield scoring
    finally:
        scoring.close()
        environment.close()


def external_side(config: LearningConfig) -> LearningConfig:
    """Less time for a group, in one process: they are scored one by one."""
    return with_environment(config, time_limit=config.environment.time_limit / EXTERNAL_SHARE)
