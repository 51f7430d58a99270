"""Questions built from their addresses, each within a budget, and who is to blame where one takes
longer.

The author of a question cannot know this machine, which may be slow, or slow at this task. So a
question over the budget is skipped, and nobody is blamed. There is one exception. If a question
takes more than twice the budget, and a random question of the same task is built here within it,
then the author looked for a slow question on purpose, since the author's own node would have
skipped it, too. A guilty author that is not blamed costs no more time than before, since scoring
the groups of strangers has a budget of its own (rollouts/scoring_ahead.py).
"""

import time
from collections.abc import Callable
from random import Random, SystemRandom
from typing import cast

from protocol.limits import MAX_QUESTIONS_PER_ROUND, MAX_SEED
from swarm_node.common.lru import Lru
from swarm_node.scoring import contract
from swarm_node.scoring.confinement import OutOfTime, cpu_budget
from swarm_node.scoring.contract import Item, ItemSource, Playable, Source

KEPT_ITEMS = 512  # questions kept built: prompts are asked first, scores a little later
KEPT_TASKS = 512
LENIENCE = 2  # budgets that a question may take before its author may be to blame

Address = tuple[str, str, int, int]  # of a question: data set, config id, seed, index


class Builder:
    """Builds the questions of one source."""

    def __init__(
        self,
        source: Source | ItemSource,
        clock: Callable[[], float] = time.process_time,
        rng: Random | None = None,
    ) -> None:
        """`clock`: seconds of CPU time. `rng` chooses the questions to compare with: no author may
        foresee them.
        """
        # Whether its questions are episodes that play turn by turn; else they are items that score
        self.plays = hasattr(source, "begin")
        begin: Callable[..., Item | Playable] | None = getattr(source, "begin", None)
        self._make = begin or cast(ItemSource, source).build
        self._clock, self._rng = clock, rng or SystemRandom()
        self._kept: Lru[Address, Item | Playable] = Lru(KEPT_ITEMS)
        # Task -> whether its random question was slow
        self._slow_here: Lru[tuple[str, str], bool] = Lru(KEPT_TASKS)

    def build(self, address: Address) -> Item | Playable | str:
        """The question, or why there is none. An address is names of ours and numbers, with no text
        of a peer.
        """
        if (item := self._kept.use(address)) is not None:
            return item
        budget = contract.QUESTION_BUDGET
        built, seconds = self._timed(address, LENIENCE * budget)
        if seconds > LENIENCE * budget and self._in_time(address[0], address[1]):
            return contract.SOUGHT_OUT
        if seconds > budget:
            return contract.SLOW_QUESTION
        if built is None:
            return contract.BROKEN_QUESTION
        self._kept[address] = built
        return built

    def _timed(self, address: Address, most: float) -> tuple[Item | Playable | None, float]:
        """The question, or None where it cannot be built, and the seconds it took: infinite where
        it was stopped.
        """
        began = self._clock()
        try:
            with cpu_budget(most):
                return self._make(*address), self._clock() - began
        except OutOfTime:
            return None, float("inf")
        except BaseException:  # noqa: BLE001
            return None, self._clock() - began

    def _in_time(self, dataset: str, config_id: str) -> bool:
        """Whether this machine is quick enough for the task, as far as one random question can
        tell.
        """
        task = dataset, config_id
        if not self._slow_here.use(task):
            seed = self._rng.randint(0, MAX_SEED)
            index = self._rng.randrange(MAX_QUESTIONS_PER_ROUND)
            _, seconds = self._timed((*task, seed, index), contract.QUESTION_BUDGET)
            self._slow_here[task] = seconds > contract.QUESTION_BUDGET
        return not self._slow_here.use(task)
