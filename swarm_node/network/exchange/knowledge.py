"""Everything one node knows of the swarm, and the few changes that concern several parts of it at once."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from protocol import limits
from protocol.admission import AdmissionRules
from protocol.identity import Identity
from protocol.messages import Hello, PeerId
from swarm_node.network.access import Access
from swarm_node.network.actions import Action, Disconnect
from swarm_node.network.exchange.contacts import Contacts
from swarm_node.network.exchange.local_announcement import LocalAnnouncement
from swarm_node.network.exchange.reputation import Reputation
from swarm_node.network.exchange.sample import Sample
from swarm_node.network.exchange.store import GroupStore
from swarm_node.network.exchange.view import View, holding


@dataclass(slots=True)
class Knowledge:
    """What all parts of the exchange know, and share."""

    identity: Identity
    swarm: str
    rng: Random
    local_announcement: LocalAnnouncement
    store: GroupStore
    view: View
    contacts: Contacts
    rules: AdmissionRules | None = None  # what the trainer lets in; None where nobody trains: all that is genuine
    sample: Sample = field(init=False)
    reputation: Reputation = field(default_factory=Reputation)
    counters: Counter[str] = field(default_factory=Counter)
    access: Access = field(default_factory=Access)  # the lists of this node's user
    outbox: list[Action] = field(default_factory=list)  # to be done at the next opportunity

    def __post_init__(self) -> None:
        self.sample = Sample(Random(self.rng.random()))

    def steady(self) -> frozenset[PeerId]:
        """Peers that others cannot push out: known for longest, or sampled."""
        return self.sample.peers.union(self.contacts.anchors)

    def charge(self, peer: PeerId, points: float, now: float, why: str) -> None:
        """Points of guilt, and for what; enough of them ban."""
        if self.reputation.charge(peer, points, now, why):
            self._hang_up(peer)

    def ban(self, peer: PeerId, now: float, why: str) -> None:
        """Refuse it for a while, and hang up."""
        self.reputation.ban(peer, now, why=why)
        self._hang_up(peer)

    def shuns(self, peer: PeerId, now: float) -> bool:
        """Whether to have nothing to do with it: banned, or not on the lists of this node's user."""
        return self.reputation.is_banned(peer, now) or not self.access.peer(peer)

    def _hang_up(self, peer: PeerId) -> None:
        self.counters["bans"] += 1
        self.view.remove(peer)
        self.sample.drop(peer)
        self.outbox.append(Disconnect(peer))

    def holdings(self) -> list[str]:
        """Hints to the external groups that an announcement names."""
        return [holding(key) for key in self.store.external(limits.MAX_ANNOUNCED_HOLDINGS)]

    def mismatch(self, hello: Hello) -> str:
        """Why a node that says so and this one cannot share, for a person; "" if they can."""
        if limits.VERSION not in hello.versions:
            theirs = ", ".join(map(str, hello.versions))
            return f"speaks protocol version {theirs}, this node speaks {limits.VERSION}"
        if hello.swarm != self.swarm:
            return f"is in swarm {hello.swarm}, this node is in {self.swarm}"
        return ""
