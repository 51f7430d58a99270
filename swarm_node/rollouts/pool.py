"""External groups that wait to be selected for training. Bounded in age, number and per peer."""

from collections.abc import Iterable
from dataclasses import dataclass

from protocol import codec
from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.rollouts.groups import ExternalGroup

MAX_AGE = 2  # rounds that a group stays available after its arrival
MAX_GROUPS = 1024  # held at most; the oldest go first
MAX_PER_PEER = 32  # held of any one peer


@dataclass(frozen=True, slots=True)
class Waiting:
    """An external group that was not used yet."""

    external: ExternalGroup
    arrived: Round  # by this node's count of rounds: a sender's clock is never trusted


class RolloutPool:
    """Waiting groups, the oldest first. A group (author and question) enters at most once while it is remembered."""

    def __init__(
        self,
        local_id: PeerId,
        max_age: int = MAX_AGE,
        max_groups: int = MAX_GROUPS,
        max_per_peer: int = MAX_PER_PEER,
    ) -> None:
        self._local_id = local_id
        self._max_age, self._max_groups, self._max_per_peer = max_age, max_groups, max_per_peer
        self._waiting: dict[tuple[PeerId, Question], Waiting] = {}
        self._spent: dict[tuple[PeerId, Question], Round] = {}  # selected or dropped, with the round of arrival
        self._shunned: dict[PeerId, Round] = {}  # authors of whom nothing is taken in, since that round

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, groups: Iterable[ExternalGroup], now: Round) -> None:
        """Take in what arrived in round `now`. Drop what is too old or too much."""
        oldest = now - self._max_age
        self._shunned = {author: since for author, since in self._shunned.items() if since >= oldest}
        for group in groups:
            key = (group.author, group.question)
            known = key in self._waiting or key in self._spent
            if group.author != self._local_id and group.author not in self._shunned and not known:
                self._waiting[key] = Waiting(group, now)
        self._waiting = {k: h for k, h in self._waiting.items() if h.arrived >= oldest}
        self._spent = {k: arrived for k, arrived in self._spent.items() if arrived >= oldest}
        self._enforce_quotas()

    def candidates(self) -> list[ExternalGroup]:
        """All waiting groups."""
        return [waiting.external for waiting in self._waiting.values()]

    def remove(self, groups: Iterable[ExternalGroup]) -> None:
        """Drop groups, and remember that they were used: none is used twice, even if it arrives again."""
        for group in groups:
            waiting = self._waiting.pop((group.author, group.question))
            self._spent[group.author, group.question] = waiting.arrived

    def shun(self, authors: Iterable[PeerId], now: Round) -> None:
        """Let go of all that they wrote, and take in nothing of theirs for as long as a group stays young."""
        self._shunned.update(dict.fromkeys(authors, now))
        self._waiting = {k: waiting for k, waiting in self._waiting.items() if k[0] not in self._shunned}

    def snapshot(self) -> dict[str, list[tuple[int, str]]]:
        """Plain data for a checkpoint: waiting groups, and those that must not be used again."""
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
            if held[author] <= self._max_per_peer and len(kept) < self._max_groups:
                kept[key] = waiting
        self._waiting = dict(reversed(kept.items()))
