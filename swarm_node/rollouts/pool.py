"""Groups heard from other peers, waiting to be drawn into a training set. Bounded in age, number and per peer."""

from collections.abc import Iterable
from dataclasses import dataclass

from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.settings import PoolConfig


@dataclass(frozen=True, slots=True)
class Heard:
    group: RolloutGroup
    arrived: Round  # by this node's own count: a sender's clock is never trusted


class RolloutPool:
    """The oldest first. A group, by author and question, enters at most once while it is remembered."""

    def __init__(self, own_id: PeerId, config: PoolConfig) -> None:
        self._own_id, self._config = own_id, config
        self._heard: dict[tuple[PeerId, Question], Heard] = {}
        self._spent: dict[tuple[PeerId, Question], Round] = {}  # drawn or dropped, with the round of arrival

    def __len__(self) -> int:
        return len(self._heard)

    def add(self, groups: Iterable[RolloutGroup], now: Round) -> None:
        """Take in what arrived in round `now` and let go of what is too old or too much."""
        for group in groups:
            key = (group.author, group.question)
            if group.author != self._own_id and key not in self._heard and key not in self._spent:
                self._heard[key] = Heard(group, now)
        oldest = now - self._config.max_age
        self._heard = {k: h for k, h in self._heard.items() if h.arrived >= oldest}
        self._spent = {k: arrived for k, arrived in self._spent.items() if arrived >= oldest}
        self._enforce_quotas()

    def candidates(self) -> list[RolloutGroup]:
        return [heard.group for heard in self._heard.values()]

    def remove(self, groups: Iterable[RolloutGroup]) -> None:
        """Forget groups: each is used at most once, even if it arrives again while it would still be young enough."""
        for group in groups:
            heard = self._heard.pop((group.author, group.question))
            self._spent[group.author, group.question] = heard.arrived

    def snapshot(self) -> dict[str, list[tuple[int, str]]]:
        """Plain data for a checkpoint: what waits, and what must not be used again."""
        return {
            "heard": [(h.arrived, h.group.model_dump_json()) for h in self._heard.values()],
            "spent": [(r, f"{author} {question.model_dump_json()}") for (author, question), r in self._spent.items()],
        }

    def restore(self, snapshot: dict[str, list[tuple[int, str]]]) -> None:
        """The inverse of `snapshot`."""
        heard = [Heard(RolloutGroup.model_validate_json(text), Round(r)) for r, text in snapshot["heard"]]
        self._heard = {(h.group.author, h.group.question): h for h in heard}
        spent = [(text.split(" ", 1), r) for r, text in snapshot["spent"]]
        self._spent = {(PeerId(a), Question.model_validate_json(q)): Round(r) for (a, q), r in spent}

    def _enforce_quotas(self) -> None:
        held: dict[PeerId, int] = {}
        kept: dict[tuple[PeerId, Question], Heard] = {}
        for key, heard in reversed(self._heard.items()):  # the newest stay
            author = heard.group.author
            held[author] = held.get(author, 0) + 1
            if held[author] <= self._config.max_per_peer and len(kept) < self._config.max_groups:
                kept[key] = heard
        self._heard = dict(reversed(kept.items()))
