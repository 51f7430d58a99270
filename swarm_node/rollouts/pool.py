"""External groups that wait to be selected for training, and those selected that may serve another round.

The pool bounds waiting groups in age, number and per peer. It keeps them under author and question, and never looks
into them.
"""

from collections.abc import Iterable, Sequence
from random import Random

from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.rollouts.groups import ExternalGroup, ScoredGroup

MAX_AGE = 2  # rounds that a group stays available after its arrival
MAX_GROUPS = 1024  # held at most; the oldest go first
MAX_PER_PEER = 32  # held of any one peer

Key = tuple[PeerId, Question]  # author and what it answered


class RolloutPool:
    """Waiting groups, the oldest first. A group (author and question) enters at most once while it is remembered."""

    def __init__(
        self, local_id: PeerId, max_age: int = MAX_AGE, max_groups: int = MAX_GROUPS, max_per_peer: int = MAX_PER_PEER
    ) -> None:
        self._local_id = local_id
        self._max_age, self._max_groups, self._max_per_peer = max_age, max_groups, max_per_peer
        # With the round of arrival, by this node's count of rounds: a sender's clock is never trusted.
        self._waiting: dict[Key, tuple[ExternalGroup, Round]] = {}
        self._spent: dict[Key, Round] = {}  # selected or dropped
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
                self._waiting[key] = group, now
        self._waiting = {k: entry for k, entry in self._waiting.items() if entry[1] >= oldest}
        self._spent = {k: arrived for k, arrived in self._spent.items() if arrived >= oldest}
        self._enforce_quotas()

    def candidates(self) -> list[ExternalGroup]:
        """All waiting groups."""
        return [group for group, _ in self._waiting.values()]

    def remove(self, groups: Iterable[ExternalGroup]) -> None:
        """Drop groups, and remember that they were used: none is used twice, even if it arrives again."""
        for group in groups:
            _, self._spent[group.author, group.question] = self._waiting.pop((group.author, group.question))

    def shun(self, authors: Iterable[PeerId], now: Round) -> None:
        """Let go of all that they wrote, and take in nothing of theirs for as long as a group stays young."""
        self._shunned.update(dict.fromkeys(authors, now))
        self._waiting = {k: entry for k, entry in self._waiting.items() if k[0] not in self._shunned}

    def snapshot(self) -> dict[str, list[tuple[int, str]]]:
        """Plain data for a checkpoint: waiting groups, and those that must not be used again."""
        return {
            "waiting": [(r, f"{each.id.hex()} {each.group.model_dump_json()}") for each, r in self._waiting.values()],
            "spent": [(r, f"{author} {question.model_dump_json()}") for (author, question), r in self._spent.items()],
        }

    def restore(self, snapshot: dict[str, list[tuple[int, str]]]) -> None:
        """The inverse of `snapshot`. Waiting groups of 0.1 have no id there, and are left out: they come again."""
        waiting = [(_external(*text.split(" ", 1)), Round(r)) for r, text in snapshot["waiting"] if text[0] != "{"]
        self._waiting = {(each.author, each.question): (each, r) for each, r in waiting}
        spent = [(text.split(" ", 1), r) for r, text in snapshot["spent"]]
        self._spent = {(PeerId(a), Question.model_validate_json(q)): Round(r) for (a, q), r in spent}

    def _enforce_quotas(self) -> None:
        held: dict[PeerId, int] = {}
        kept: dict[Key, tuple[ExternalGroup, Round]] = {}
        for key, entry in reversed(self._waiting.items()):  # the newest stay
            author = key[0]
            held[author] = held.get(author, 0) + 1
            if held[author] <= self._max_per_peer and len(kept) < self._max_groups:
                kept[key] = entry
        self._waiting = dict(reversed(kept.items()))


def _external(name: str, text: str) -> ExternalGroup:
    return ExternalGroup(RolloutGroup.model_validate_json(text), bytes.fromhex(name))


class Reuse:
    """External groups that serve several quick rounds: a round may take 50 ms, the network brings groups once a second.

    Bounded in rounds and in seconds, so that rounds which take long use every group once, as the paper does.
    Simulations never use a group twice. Groups are kept as they were selected, scored and screened once. A checkpoint
    has none of them: seconds later they would be forgotten in any case.
    """

    def __init__(self, rounds: int, seconds: float) -> None:
        """A group serves `rounds` rounds at most, and none later than `seconds` after its first."""
        self._rounds, self._seconds = rounds, seconds
        self._used: list[tuple[ScoredGroup, float, int]] = []  # time of its first round in seconds, rounds served

    def waiting(self, now: float) -> int:
        """Groups that may serve another round."""
        self._used = [
            (group, since, rounds)
            for group, since, rounds in self._used
            if now - since <= self._seconds and rounds < self._rounds
        ]
        return len(self._used)

    def select(self, count: int, now: float, random: Random) -> list[ScoredGroup]:
        """Up to `count` groups that served a round before. Where it may find none, it draws no random number."""
        found = self.waiting(now)
        chosen = random.sample(range(found), min(count, found)) if count > 0 and found else []
        for place in chosen:
            group, since, rounds = self._used[place]
            self._used[place] = group, since, rounds + 1
        return [self._used[place][0] for place in chosen]

    def add(self, groups: Sequence[ScoredGroup], now: float) -> None:
        """They serve their first round."""
        if self._rounds > 1:
            self._used += [(group, now, 1) for group in groups]
