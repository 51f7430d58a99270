"""Inbound streams: requests of peers. Every reply is bounded and rationed, and handling a request
never raises.

Asking costs a peer little, so refusing must cost this node less than answering: nothing of a
request is read before `Budgets.allow`, which counts by peer, by network of addresses, and for all
peers together.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from protocol import codec, limits, wire
from protocol.messages import Announcement, PeerId, Reason, Rejected
from swarm_node.common.lru import Lru
from swarm_node.network.backend import Caller
from swarm_node.network.exchange.gossip import Reception, receive
from swarm_node.network.exchange.knowledge import Knowledge
from swarm_node.network.exchange.peers import BAD_REPLY_POINTS
from swarm_node.network.exchange.view import HeardAnnouncement, age_of
from swarm_node.network.parties import is_public, network_of

MAX_TRACKED = 4096  # peers, and networks, whose buckets are remembered
NETWORK_PEERS = 4  # a network of addresses (/24) may ask for as much as this many peers


@dataclass(frozen=True, slots=True)
class Rate:
    """How much is allowed: steadily, and at once."""

    per_second: float
    burst: float


class Bucket:
    """A token bucket: starts full, and fills at its rate up to its burst."""

    def __init__(self, rate: Rate, now: float, times: int = 1) -> None:
        """A bucket of `times` times this rate; `now` in seconds."""
        self._per_second, self._burst = rate.per_second * times, rate.burst * times
        self._level, self._updated = self._burst, now

    def holds(self, amount: float, now: float) -> bool:
        """Whether this amount is there now."""
        self._level = min(self._burst, self._level + (now - self._updated) * self._per_second)
        self._updated = now
        return self._level >= amount

    def take(self, amount: float) -> None:
        self._level -= amount


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The rates of a protocol, or of bytes: of a peer and of all. A network has `NETWORK_PEERS`
    times a peer's.
    """

    peer: Rate
    total: Rate


class Budgets:
    """All buckets of one node. `network` is "" for an address that counts in no network: of the
    LAN, or unknown.
    """

    def __init__(self, limits: Mapping[str, RateLimit], now: float) -> None:
        self._limits = limits
        self._total = {kind: Bucket(limit.total, now) for kind, limit in limits.items()}
        # By kind, and peer or network
        self._shared: Lru[tuple[str, str], Bucket] = Lru(MAX_TRACKED * len(limits))

    def allow(self, kind: str, amount: float, peer: PeerId, network: str, now: float) -> bool:
        """Whether all three buckets hold this amount; then it is taken from all three, else from
        none.
        """
        buckets = [self._bucket(kind, network, now, NETWORK_PEERS)] if network else []
        if not all(bucket.holds(amount, now) for bucket in buckets):
            # Before the peer gets a bucket: a thousand identities must not push out those of others
            return False
        buckets += [self._bucket(kind, peer, now), self._total[kind]]
        if not all(bucket.holds(amount, now) for bucket in buckets):
            return False
        for bucket in buckets:
            bucket.take(amount)
        return True

    def _bucket(self, kind: str, name: str, now: float, times: int = 1) -> Bucket:
        bucket = self._shared.get((kind, name)) or Bucket(self._limits[kind].peer, now, times)
        self._shared[kind, name] = bucket
        return bucket


REFUSED = b""
# Protocol -> its reply, or why it refuses
Others = Mapping[str, Callable[[PeerId, bytes, float], bytes | str]]
Lets = Callable[[PeerId, float], bool]  # as Membership.lets
BYTES = "bytes"

# Of requests. In a swarm of two, a node whose rounds take a second asks the other about once a
# second.
_REQUESTS: Mapping[str, RateLimit] = {
    wire.EXCHANGE: RateLimit(peer=Rate(1.0, 10.0), total=Rate(20.0, 100.0)),
    wire.PULL: RateLimit(peer=Rate(2.0, 20.0), total=Rate(50.0, 200.0)),
    wire.HELLO: RateLimit(peer=Rate(0.1, 5.0), total=Rate(5.0, 50.0)),
    wire.CARD: RateLimit(peer=Rate(0.2, 6.0), total=Rate(5.0, 50.0)),
    wire.ENTER: RateLimit(peer=Rate(0.2, 6.0), total=Rate(20.0, 100.0)),
}
_PEER_BYTES = Rate(64 * 1024, 2 * 1024 * 1024)  # of replies


class Responder:
    """Replies to the calls of others, rationed by peer and by network."""

    def __init__(
        self, knowledge: Knowledge, others: Others, lets: Lets, upload_limit: int, now: float
    ) -> None:
        """`lets`: whether a caller has entered. `upload_limit` in kilobytes per second, all replies
        together.
        """
        self._knowledge, self._others, self._lets = knowledge, others, lets
        self._tag = wire.swarm_tag(knowledge.swarm)
        self._our_tag = wire.key_tag(knowledge.identity.peer_id)
        upload = Rate(
            upload_limit * 1000, max(upload_limit * 1000, 2 * limits.MAX_PULL_REPLY_BYTES)
        )
        self._budgets = Budgets({**_REQUESTS, BYTES: RateLimit(_PEER_BYTES, upload)}, now)

    def answer(self, caller: Caller, protocol: str, request: bytes, now: float) -> bytes:
        if protocol not in _REQUESTS:
            return self._refuse("unknown protocol")
        network = network_of(caller.address)
        # A LAN, and all behind a container's gateway, have none
        quota = network if is_public(network) else ""
        if self._knowledge.reputation.is_banned(caller.peer, now):
            return self._refuse("banned")
        if not (
            self._knowledge.access.peer(caller.peer)
            and self._knowledge.access.address(caller.address)
        ):
            return self._refuse("blocked")
        lets = protocol == wire.ENTER or self._lets(caller.peer, now)
        if not lets or not self._budgets.allow(protocol, 1, caller.peer, quota, now):
            return self._refuse("too often" if lets else "not a member")
        if protocol != wire.ENTER:  # of a caller that only asks to enter, nothing is kept
            self._knowledge.contacts.called_in(caller.peer, caller.address, now)
        reply = self._reply(caller.peer, protocol, request, now)
        if reply and not self._budgets.allow(BYTES, len(reply), caller.peer, quota, now):
            return self._refuse("too much")
        return reply

    def _reply(self, caller: PeerId, protocol: str, request: bytes, now: float) -> bytes:
        if protocol == wire.EXCHANGE:
            return self._exchange(caller, request, now)
        if protocol in self._others:
            found = self._others[protocol](caller, request, now)
            return self._refuse(found) if isinstance(found, str) else found
        return (
            self._pull(caller, request) if protocol == wire.PULL else self._hello(caller, request)
        )

    def _exchange(self, caller: PeerId, data: bytes, now: float) -> bytes:
        request = wire.decode_exchange(data)
        if isinstance(request, Rejected):
            return self._refuse(request.reason)
        if request.tag != self._tag:
            return self._refuse("another swarm")
        if request.announcement and not self._may_say(caller, request.announcement, now):
            return self._refuse("bad announcement")
        if not request.limit:
            return wire.encode_items([])
        entries = self._news_for(caller, request)
        local_announcement = self._knowledge.local_announcement
        local_announcement.renew(self._knowledge.holdings(), now)
        items = [
            wire.CarriedAnnouncement(age_of(entry.made, now), entry.sealed) for entry in entries
        ]
        if local_announcement.seq > request.digest.get(self._our_tag, -1):
            items.insert(
                0,
                wire.CarriedAnnouncement(
                    age_of(local_announcement.made, now), local_announcement.sealed
                ),
            )
        return wire.encode_items(items[: request.limit])

    def _news_for(self, caller: PeerId, request: wire.ExchangeRequest) -> list[HeardAnnouncement]:
        """The announcements that the caller lacks. Also the caller's own one known here, if it
        sends another now: then it has lost its memory, or another node has the same key.
        """
        view, rng, steady = self._knowledge.view, self._knowledge.rng, self._knowledge.steady()
        said = view.get(caller)
        if said is None:
            return view.news_for(request.digest, request.limit, rng, steady)
        news = view.news_for(
            {**request.digest, said.tag: said.announcement.seq}, request.limit, rng, steady
        )
        return news if request.announcement in (b"", said.sealed) else [said, *news]

    def _may_say(self, caller: PeerId, sealed: bytes, now: float) -> bool:
        """Takes in the caller's announcement. False if forged or another peer's: no peer may push
        its friends in.
        """
        announcement = codec.peek(sealed, Announcement)
        good = not isinstance(announcement, Rejected) and announcement.author == caller
        if (
            not good
            or receive(self._knowledge, sealed, caller, now, now, pushed=True) is Reception.FORGED
        ):
            self._knowledge.charge(caller, BAD_REPLY_POINTS, now, "bad announcement")
            return False
        return True

    def _pull(self, caller: PeerId, data: bytes) -> bytes:
        request = wire.decode_pull(data)
        if isinstance(request, Rejected):
            return self._refuse(request.reason)
        tag, hashes = request
        if tag != self._tag:
            return self._refuse("another swarm")
        envelopes: list[bytes] = []
        room = limits.MAX_PULL_REPLY_BYTES - len(hashes) * limits.FRAME_HEADER_BYTES
        for key in hashes:
            envelope = self._knowledge.store.get(codec.to_text(key))
            envelopes.append(envelope if len(envelope) <= room else b"")
            room -= len(envelopes[-1])
        self._knowledge.counters["groups served"] += sum(map(bool, envelopes))
        self._knowledge.reputation.served(caller, sum(map(bool, envelopes)))
        return wire.encode_groups(envelopes)

    def _hello(self, caller: PeerId, data: bytes) -> bytes:
        hello = wire.decode_hello(data)
        if isinstance(hello, Rejected):
            return self._refuse(hello.reason)
        self._knowledge.contacts.learn(caller).note = self._knowledge.mismatch(hello)
        return wire.encode_hello(self._knowledge.swarm)

    def _refuse(self, reason: Reason | str) -> bytes:
        self._knowledge.counters[f"refused: {reason}"] += 1
        return REFUSED
