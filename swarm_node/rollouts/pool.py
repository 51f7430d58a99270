"""External groups that wait to be selected for training. Bounded in age, number and per peer."""

from collections.abc import Iterable
from dataclasses import dataclass

from protocol import codec
from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.rollouts.groups import ExternalGroup
from swarm_node.settings import PoolConfig


@dataclass(frozen=True, slots=True)
class Waiting:
    """An external group that was not used yet."""

    external: ExternalGroup
    arrived: Round  # by this node's own count: a sender's clock is never trusted


class RolloutPool:
    """The oldest first. A group, by author and question, enters at most once while it is remembered."""

    def __init__(self, local_id: PeerId, config: PoolConfig) -> None:
        self._local_id, self._config = local_id, config
        self._waiting: dict[tuple[PeerId, Question], Waiting] = {}
        self._spent: dict[tuple[PeerId, Question], Round] = {}  # selected or dropped, with the round of arrival

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, groups: Iterable[ExternalGroup], now: Round) -> None:
        """Take in what arrived in round `now` and let go of what is too old or too much."""
        for group in groups:
            key = (group.author, group.question)
            if group.author != self._local_id and key not in self._waiting and key not in self._spent:
                self._waiting[key] = Waiting(group, now)
        oldest = now - self._config.max_age
        self._waiting = {k: h for k, h in self._waiting.items() if h.arrived >= oldest}
        self._spent = {k: arrived for k, arrived in self._spent.items() if arrived >= oldest}
        self._enforce_quotas()

    def candidates(self) -> list[ExternalGroup]:
        """All that wait."""
        return [waiting.external for waiting in self._waiting.values()]

    def remove(self, groups: Iterable[ExternalGroup]) -> None:
        """Forget groups: each is used at most once, even if it arrives again while it would still be young enough."""
        for group in groups:
            waiting = self._waiting.pop((group.author, group.question))
            self._spent[group.author, group.question] = waiting.arrived

    def snapshot(self) -> dict[str, list[tuple[int, str]]]:
        """Plain data for a checkpoint: what waits, and what must not be used again."""
        return {
            "waiting": [(h.arrived, h.external.group.model_dump_json()) for h in self._waiting.values()],
            "spent": [(r, f"{author} {question.model_dump_json()}") for (author, question), r in self._spent.items()],
        }

    def restore(self, snapshot: dict[str, list[tuple[int, str]]]) -> None:
        """The inverse of `snapshot`."""
        waiting = [(RolloutGroup.model_validate_json(text), Round(r)) for r, text in snapshot["waiting"]]
        self._waiting = {
            (group.author, group.question): Waiting(ExternalGroup(group, codec.content_hash(codec.encode(group))), r)
            for group, r in waiting
        }
        spent = [(text.split(" ", 1), r) for r, text in snapshot["spent"]]
        self._spent = {(PeerId(a), Question.model_validate_json(q)): Round(r) for (a, q), r in spent}

    def _enforce_quotas(self) -> None:
        held: dict[PeerId, int] = {}
        kept: dict[tuple[PeerId, Question], Waiting] = {}
        for key, waiting in reversed(self._waiting.items()):  # the newest stay
            author = waiting.external.author
            held[author] = held.get(author, 0) + 1
            if held[author] <= self._config.max_per_peer and len(kept) < self._config.max_groups:
                kept[key] = waiting
        self._waiting = dict(reversed(kept.items()))
