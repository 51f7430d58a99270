"""A swarm of exchanges in memory: identities, groups, and nodes that publish a round every few
seconds.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from random import Random
from typing import Any

from lab.studies.simulated_exchange import Answering, SimulatedPeer, World
from protocol import codec
from protocol.admission import AdmissionRules
from protocol.identity import Identity
from protocol.messages import Announcement, PeerId, RolloutGroup, Round
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.settings import NetworkConfig
from tests.groups import SWARM, group


@lru_cache(maxsize=4096)
def identity(number: int) -> Identity:
    return Identity.from_seed_bytes(number.to_bytes(32, "big"))


def address(number: int, network: int | None = None) -> str:
    """An address on the internet, in a /24 of its own unless `network` names one."""
    first, last = divmod(number if network is None else network, 200)
    return f"/ip4/{20 + first}.{last}.7.{1 + number % 250}/tcp/31330"


def sealed_groups(author: Identity, round: int, count: int = 9, swarm: str = SWARM) -> list[bytes]:
    return [
        codec.seal(group(author.peer_id, round, index), author, swarm) for index in range(count)
    ]


def key_of(envelope: bytes) -> bytes:
    return codec.content_hash(codec.split(envelope)[1])


def announced(
    author: Identity,
    seq: int,
    groups: Sequence[bytes] = (),
    held: Sequence[str] = (),
    round: int = 0,
) -> bytes:
    """A sealed announcement of envelopes, and of hints to what else the author holds."""
    announcement = Announcement(
        addresses=(),
        author=author.peer_id,
        groups=tuple(codec.to_text(key_of(envelope)) for envelope in groups),
        held=tuple(held),
        round=round,
        seq=seq,
    )
    return codec.seal(announcement, author, SWARM)


class Swarm:
    """Nodes 0, 1, ... At first the others know only node 0."""

    def __init__(self, seed: int = 0, loss: float = 0.0, every: float = 10.0) -> None:
        self.world = World(Random(f"world/{seed}"), loss=loss)
        self.members: list[SimulatedPeer] = []
        self.exchanges: list[Exchange] = []
        self._every = every  # seconds between rounds
        self._rng = Random(f"swarm/{seed}")

    def add(
        self,
        swarm: str = SWARM,
        network: int | None = None,
        want: int = 4,
        groups: int = 3,
        rules: AdmissionRules | None = None,
    ) -> SimulatedPeer:
        """Adds a node, which publishes rounds unless `want` and `groups` are 0."""
        number = len(self.exchanges)
        who, config = identity(number), NetworkConfig()
        exchange = Exchange(
            who, swarm, config, Random(f"node/{number}"), self.world.now, rules=rules
        )
        member = self.world.join(who.peer_id, exchange, address(number, network))
        if self.members:
            first = self.members[0]
            exchange.learned(first.peer, [f"{first.address}/p2p/{first.peer}"])
        self.members.append(member)
        self.exchanges.append(exchange)
        if want or groups:
            self.world.after(
                self._rng.uniform(0, self._every),
                partial(self._publish, number, 0, want, groups, swarm),
            )
        return member

    def add_many(self, count: int, **options: Any) -> "Swarm":
        for _ in range(count):
            self.add(**options)
        return self

    def hostile(self, number: int, party: Answering, network: int | None = None) -> SimulatedPeer:
        """A peer that follows no rules."""
        return self.world.join(identity(number).peer_id, party, address(number, network))

    def run(self, seconds: float) -> None:
        self.world.run(seconds)

    def pulled(self, member: SimulatedPeer, since: float = 0.0) -> list[RolloutGroup]:
        """External groups that this member got."""
        groups = []
        for when, delivery in member.delivered:
            if when >= since:
                groups.append(delivery.group)
        return groups

    def ids(self, start: int = 0, stop: int | None = None) -> list[PeerId]:
        return [member.peer for member in self.members[start:stop]]

    def _publish(self, number: int, round: int, want: int, groups: int, swarm: str) -> None:
        member, exchange = self.members[number], self.exchanges[number]
        again = partial(self._publish, number, round, want, groups, swarm)
        if self.world.asleep(member, again):
            return
        if member.alive:
            envelopes = sealed_groups(identity(number), round, groups, swarm)
            self.world.perform(
                member,
                exchange.publish(envelopes, Round(round), want, self.world.now + member.ahead),
            )
            next_round = partial(self._publish, number, round + 1, want, groups, swarm)
            self.world.after(self._every * self._rng.uniform(0.9, 1.1), next_round)
