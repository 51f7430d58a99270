"""Questions of reasoning-gym behind the Environment seam. The library itself runs in the judge process only."""

import difflib
from collections.abc import Sequence

from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE, EXCLUDED, STARTER_TASKS, VERSION
from swarm_node.environments.scored import ScoredEnvironment, Scoring, UnknownTaskError
from swarm_node.environments.scoring.client import ScoringClient
from swarm_node.environments.scoring.client_pool import ScoringPool

NAME = "reasoning_gym"
SOURCE = "swarm_node.environments.reasoning_gym.source"


class ReasoningGym(ScoredEnvironment):
    """The tasks of one node, each "dataset/config_id", and a judge for every task of the catalogue, not only those this
    node asks: what others ask may be learned from too.

    `exact` pays 1.0 for an answer the library scores 0.99 or better and 0.0 for any other, `graded` pays the library's
    score. `time_limit` is seconds of wall clock per question and its answers, `memory_limit` megabytes of the judge.
    `instruction`, if any, follows each question as a paragraph, e.g. to ask for <answer> tags.
    """

    def __init__(
        self,
        tasks: Sequence[str] = STARTER_TASKS,
        scoring: Scoring = "exact",
        time_limit: float = 5.0,
        memory_limit: int = 1024,
        instruction: str = "",
        judges: int = 1,
    ) -> None:
        if not tasks:
            raise UnknownTaskError("no tasks: name at least one, e.g. chain_sum/easy")
        judge = ScoringPool(lambda: ScoringClient(SOURCE, VERSION, time_limit, memory_limit), judges)
        super().__init__(NAME, VERSION, CATALOGUE, [parse_task(task) for task in tasks], judge, scoring, instruction)


def parse_task(name: str) -> tuple[str, str]:
    """("chain_sum", "easy") of "chain_sum/easy". Raises UnknownTaskError: one line, with what was probably meant."""
    dataset, _, config_id = name.partition("/")
    if config_id in CATALOGUE.get(dataset, {}):
        return dataset, config_id
    if dataset in EXCLUDED:
        raise UnknownTaskError(f"task {name!r}: {dataset} is left out: {EXCLUDED[dataset]}")
    if dataset in CATALOGUE:
        raise UnknownTaskError(f"unknown task {name!r}: {dataset} has {', '.join(CATALOGUE[dataset])}")
    for close in difflib.get_close_matches(dataset, CATALOGUE, n=1):
        meant = config_id if config_id in CATALOGUE[close] else next(iter(CATALOGUE[close]))
        raise UnknownTaskError(f"unknown task {name!r}: did you mean '{close}/{meant}'?")
    raise UnknownTaskError(f"unknown task {name!r}: names are dataset/config_id, e.g. chain_sum/easy")
