"""Connects a node with the curriculum by which it chooses its tasks (rollouts/curriculum.py).

Before a round the environment asks here which tasks it is about. Before the round is trained on,
validation measures those of its tasks that nothing was trained on so far, so that a comparison
begins where training does. After it the curriculum learns from the rewards, the views are told what
is practised, and the user what to do where no task lies in the band.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from protocol.messages import PeerId, Round
from swarm_node.common.shell import at_home
from swarm_node.environments.registry import tasks_of
from swarm_node.node.evaluation import task_of
from swarm_node.rollouts.curriculum import AT_ONCE, Curriculum, CurriculumState
from swarm_node.rollouts.groups import Selection
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import Chosen, Notice, Telemetry

EVERY = 5  # rounds after which the shares are told, whether or not the list has changed
REMEMBERED = 128  # rounds that were asked and not learned from: an asynchronous node has 64 at most


class Practice:
    """The tasks of one node."""

    def __init__(
        self,
        config: NodeConfig,
        peer_id: PeerId,
        kept: CurriculumState,
        telemetry: Telemetry,
        note: Callable[[str, Any], None],
    ) -> None:
        """`kept`: what a checkpoint knows. `note` takes what `status` tells, by name."""
        at_once = config.environment.at_once or AT_ONCE
        self.curriculum = Curriculum(tasks_of(config), at_once, kept)
        self._stream = f"{config.seed}/{peer_id}"
        self._telemetry, self._note = telemetry, note
        self._home = at_home("swarm-node run", config.home, NodeConfig().home)
        self._asked: dict[Round, Sequence[str]] = {}  # by round, until it was trained on
        self._told: tuple[frozenset[str], frozenset[str]] | None = None
        self._stuck = False  # whether the user was told so
        if kept.rounds:
            self._tell(kept.rounds)
        self._tell_status()

    def tasks(self, now: Round, count: int) -> Sequence[str]:
        """The task of each of the `count` questions of this round."""
        asked = self.curriculum.ask(now, count, Random(f"{self._stream}/{now}/tasks"))
        self._asked[now] = asked
        while len(self._asked) > REMEMBERED:
            del self._asked[min(self._asked)]
        return asked

    def learn(self, selection: Selection) -> None:
        """Takes in a round that was trained on."""
        now, groups = selection.generated.round, selection.generated.groups
        results = [(task_of(group.question), group.rewards) for group in groups]
        self.curriculum.learn(now, self._asked.pop(now, ()), results)
        self._tell(now + 1)

    def trained(self, selection: Selection) -> list[str]:
        """The candidates that this round trains on."""
        trained = [group for group in (*selection.local, *selection.external) if group.informative]
        tasks = dict.fromkeys(task_of(group.question) for group in trained)
        return [task for task in tasks if task in self.curriculum.candidates]

    def _tell(self, done: int) -> None:
        self._tell_status()
        curriculum = self.curriculum
        practised, dropped = curriculum.practised, curriculum.dropped
        lists = frozenset(practised), frozenset(dropped)
        if lists != self._told or done % EVERY == 0:
            self._told = lists
            unasked = len(curriculum.unasked)
            self._telemetry.emit(Chosen(done, rounded(practised), rounded(dropped), unasked))
        if curriculum.is_stuck and not self._stuck:
            self._telemetry.emit(Notice(self._stuck_line()))
        self._stuck = curriculum.is_stuck

    def _stuck_line(self) -> str:
        """What the user may do where no task lies in the band."""
        easiest = self.curriculum.easiest
        shares = self.curriculum.dropped
        named = ", ".join(f"{task} {shares[task]:.0%}" for task in easiest)
        return (
            f"none of {len(shares)} tasks is right sometimes and wrong sometimes: the node "
            f"practises those that come closest, {named}; for others, name easier or harder ones "
            f"with {self._home} --environment.tasks, such as chain_sum/tiny"
        )

    def _tell_status(self) -> None:
        curriculum = self.curriculum
        told = {
            "practised": rounded(curriculum.practised),
            "dropped": rounded(curriculum.dropped),
            "unasked": len(curriculum.unasked),
        }
        self._note("chosen", told)


def rounded(shares: dict[str, float]) -> dict[str, float]:
    """The shares as people read them."""
    return {task: round(share, 3) for task, share in shares.items()}
