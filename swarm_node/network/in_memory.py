"""A swarm inside one process: messages are encoded, signed, lost or delayed, and each receiver
admits or refuses them.

It has no topology, no bandwidth and no clock: time is the `now` its callers pass. Nothing here is
thread-safe.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from random import Random
from typing import NamedTuple, Protocol

from protocol import codec
from protocol.admission import AdmissionRules, authenticate, review
from protocol.identity import Identity
from protocol.messages import PeerId, Reason, Rejected, RolloutGroup, Round
from swarm_node.common.lru import Lru
from swarm_node.rollouts.groups import Group
from swarm_node.rollouts.interfaces import Network


class Alone(Network):
    """No network: nothing is published, and nothing is ever collected."""

    def publish(self, groups: Sequence[RolloutGroup], now: Round) -> None:
        pass

    def collect(self, now: Round) -> list[Group]:
        return []

    def verdict(self, external: Group, useful: bool, fault: str = "") -> None:
        pass

    def rejections(self) -> Mapping[str, int]:
        return {}


# Counted among the rejections: the local group does not fit into a message
UNSENT = "unsent: too big"
INBOX_FULL = "inbox full"  # the oldest message made room for a new one


class Parcel:
    """A message in flight. Results that depend on its bytes alone are computed once, not by every
    receiver: so eight nodes of 63 external groups each spend 13 ms a round on admission, instead of
    68 ms.
    """

    def __init__(self, data: bytes, due: Round) -> None:
        self.data = data
        self.due = due
        self._opened: dict[str, RolloutGroup | Rejected] = {}  # by swarm name

    @cached_property
    def id(self) -> bytes:
        return codec.content_hash(codec.split(self.data)[1])

    def open(self, swarm: str) -> RolloutGroup | Rejected:
        """Its group, or why it is refused; found out once for each swarm."""
        if swarm not in self._opened:
            self._opened[swarm] = authenticate(self.data, swarm)
        return self._opened[swarm]


class Receiver(Protocol):
    """A member, as the swarm sees it."""

    def receive(self, parcel: Parcel) -> None:
        """Take a message, which another member has sent."""
        ...


class MemorySwarm:
    """Carries bytes between members. Takes them from any sender, member or not, and promises no
    delivery.
    """

    def __init__(
        self, rng: Random, loss: float = 0.0, delay: int = 0, inbox: int = 4096, memory: int = 4096
    ) -> None:
        self._rng = rng
        self._loss = loss  # probability, for each message and receiver
        self._delay = delay  # rounds
        self._inbox = inbox  # messages waiting at one receiver
        self._memory = memory  # content hashes that one receiver remembers, to know a replay
        self._members: dict[PeerId, Receiver] = {}

    def join(self, identity: Identity, rules: AdmissionRules) -> "MemoryNetwork":
        """The access of a new member, with an empty inbox. `rules`: those of this identity, which
        is no member yet.
        """
        member = MemoryNetwork(self, identity, rules, self._inbox, self._memory)
        self._members[identity.peer_id] = member
        return member

    def leave(self, peer: PeerId) -> None:
        """The node is gone: nothing reaches it and it sends nothing more; what it sent before still
        arrives.
        """
        self._members.pop(peer, None)

    def transmit(self, data: bytes, sender: PeerId, now: Round) -> None:
        """Sends bytes to every member but the sender. Public, so that hostile peers can be
        simulated.
        """
        parcel = Parcel(data, Round(now + self._delay))
        for peer, member in self._members.items():
            if peer != sender and self._rng.random() >= self._loss:
                member.receive(parcel)

    def __contains__(self, member: object) -> bool:
        # The member, not its id, which may have joined again
        return member in self._members.values()


class Outgoing(NamedTuple):
    """Bytes on their way to every member of a swarm."""

    data: bytes
    sender: PeerId
    now: Round


class SwarmInParts(MemorySwarm):
    """A swarm whose members live in several processes, seen from one of them.

    What members send is held back. The processes exchange it, and each of them delivers all of it
    in the same order. Each also knows of the members elsewhere. So all draw the same random numbers
    for what is lost, and a swarm in parts is the same as one in one process.
    """

    def __init__(self, rng: Random, loss: float = 0.0, delay: int = 0) -> None:
        super().__init__(rng, loss=loss, delay=delay)
        self._held: list[Outgoing] = []

    def join_elsewhere(self, peer: PeerId) -> None:
        """A new member in another process, which receives there."""
        self._members[peer] = Elsewhere()

    def transmit(self, data: bytes, sender: PeerId, now: Round) -> None:
        """Holds the bytes back."""
        self._held.append(Outgoing(data, sender, now))

    def taken(self) -> list[Outgoing]:
        """What members here have sent since the last call."""
        held, self._held = self._held, []
        return held

    def deliver(self, sent: Sequence[Outgoing]) -> None:
        """Sends to the members here what members anywhere have sent."""
        for data, sender, now in sent:
            super().transmit(data, sender, now)


class Elsewhere(Receiver):
    """A member in another process."""

    def receive(self, parcel: Parcel) -> None:
        """Its own process does that."""


class MemoryNetwork(Network):
    """One member's access to the swarm."""

    def __init__(
        self, swarm: MemorySwarm, identity: Identity, rules: AdmissionRules, inbox: int, memory: int
    ) -> None:
        self._swarm = swarm
        self._identity = identity
        self._rules = rules
        self._inbox: deque[Parcel] = deque()
        self._inbox_size = inbox
        self._admitted: Lru[bytes, None] = Lru(memory)  # content hashes
        self._rejections: Counter[str] = Counter()

    def publish(self, groups: Sequence[RolloutGroup], now: Round) -> None:
        if self not in self._swarm:
            return
        for group in groups:
            try:
                data = codec.seal(group, self._identity, self._rules.swarm)
            except ValueError:
                self._rejections[UNSENT] += 1
            else:
                self._swarm.transmit(data, self._identity.peer_id, now)

    def receive(self, parcel: Parcel) -> None:
        """Called by `MemorySwarm.transmit`. A full inbox drops its oldest message: for training,
        new ones are worth more.
        """
        if len(self._inbox) >= self._inbox_size:
            self._inbox.popleft()
            self._rejections[INBOX_FULL] += 1
        self._inbox.append(parcel)

    def collect(self, now: Round) -> list[Group]:
        """Groups that are due. Without delay, a message of round r is due as soon as its sender has
        published it.
        """
        due = [parcel for parcel in self._inbox if parcel.due <= now]
        self._inbox = deque(parcel for parcel in self._inbox if parcel.due > now)
        admitted = []
        for parcel in due:
            outcome = self._admit(parcel)
            if isinstance(outcome, Rejected):
                self._rejections[outcome.reason] += 1
            else:
                admitted.append(Group.received(outcome, parcel.id))
        return admitted

    def verdict(self, external: Group, useful: bool, fault: str = "") -> None:
        pass  # a simulation keeps no reputation: senders of rubbish are not slowed down

    def rejections(self) -> Mapping[str, int]:
        return {str(reason): count for reason, count in self._rejections.items()}

    def _admit(self, parcel: Parcel) -> RolloutGroup | Rejected:
        """`admission.admit`, but receivers share its first half, and replays are refused."""
        if parcel.id in self._admitted:
            return Rejected(Reason.REPLAYED)
        opened = parcel.open(self._rules.swarm)
        outcome = opened if isinstance(opened, Rejected) else review(opened, self._rules)
        if isinstance(outcome, RolloutGroup):
            # Remembered only now: else anybody could block a payload by sending it first with a bad
            # signature.
            self._admitted[parcel.id] = None
        return outcome
