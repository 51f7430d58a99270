"""Parties: peers counted as one when places, dials and requests are shared out. Identities are
free, addresses are not.

On the internet a peer counts in three parties: itself, its address, and the /24 (IPv4) or /48
(IPv6) around it. A party holds a sixteenth of the places at most. On a local network and on this
machine each peer counts for itself alone. Pure: no clock, the time is an argument, in seconds of
any clock that never goes back.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import chain
from random import Random
from typing import Generic, TypeVar

from protocol import limits
from protocol.messages import ADDRESS_PATTERN, PeerId

IP = IPv4Address | IPv6Address
Range = IPv4Network | IPv6Network
Key = TypeVar("Key", bound=Hashable)

SHARE = 16  # a party holds at most one of so many places
# ... but at least this many: two peers that call each other at once have two connections for a
# moment
LEAST = 2
SHARED_BITS = {4: 24, 6: 48}  # bits of a network whose addresses all have one holder

PRIVATE: tuple[Range, ...] = tuple(
    ip_network(each)
    for each in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "fc00::/7",
        "::1/128",
    )
)
_LOCAL = (*PRIVATE, ip_network("169.254.0.0/16"), ip_network("fe80::/10"))
# NAT64, IPv4-compatible: the last 32 bits are IPv4
_WITH_IPV4 = tuple(map(ip_network, ("64:ff9b::/96", "::/96")))
UNKNOWN = ("unknown",)


def outer(ip: IP) -> IP:
    """The IPv4 address that an IPv6 address spells (mapped, 6to4, Teredo, NAT64); else the address
    itself.
    """
    if ip.version == 4:
        return ip
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if is_local(ip):
        return ip
    spelt = ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
    if any(ip in each for each in _WITH_IPV4):
        spelt = IPv4Address(int(ip) & 0xFFFFFFFF)
    # No tunnel of the internet leads to a private address
    return ip if spelt is None or is_local(spelt) else spelt


def is_local(ip: IP) -> bool:
    """Whether the address is this machine's or a local network's. Apply `outer` first."""
    return any(ip in each for each in _LOCAL)


def network_around(ip: IP) -> str:
    """The /24 (IPv4) or /48 (IPv6) of an address: the holder of one address in it has them all."""
    return str(ip_network((ip, SHARED_BITS[ip.version]), strict=False))


@lru_cache(maxsize=4096)
def groups_of(address: str) -> tuple[str, ...]:
    """The parties, beside the peer itself, in which a peer at this multiaddr counts; none on a
    local network.

    A peer behind a relay also counts for the relay, wherever that is, because a relay lets anybody
    in. All unreadable addresses count for one party, so that nobody gains by an odd address.
    """
    entrance, through, _ = address.partition("/p2p-circuit")
    relay = (f"relay {entrance.rpartition('/p2p/')[2]}",) if through else ()
    kind, host = [*entrance.split("/", 3)[1:3], "", ""][:2]
    if through and kind == "p2p":  # a relay whose own address is not given
        return relay
    try:
        ip = outer(ip_address(host.partition("%")[0]))
    except ValueError:
        return (*relay, *UNKNOWN)
    if is_local(ip):
        return relay
    return (*relay, str(ip), network_around(ip))


def share_of(places: int) -> int:
    """How many of `places` one party may hold."""
    return max(LEAST, places // SHARE)


class PartySlots:
    """Places that peers take and leave one by one, with a bound for each party."""

    def __init__(self, count: int, local: int) -> None:
        """`count` places, of which a peer on a local network may hold `local`."""
        self._share, self._local = share_of(count), local
        self._held: Counter[str] = Counter()

    def has_room(self, peer: str, groups: tuple[str, ...]) -> bool:
        """Whether this peer may take one more place. `groups`: its parties, by `groups_of`."""
        if not groups:
            return self._held[peer] < self._local
        return all(self._held[party] < self._share for party in (peer, *groups))

    def take(self, peer: str, groups: tuple[str, ...]) -> None:
        """Takes one place without a check: the caller asks `has_room` first."""
        self._held.update((peer, *groups))

    def leave(self, peer: str, groups: tuple[str, ...]) -> None:
        """Gives back what `take` took."""
        for party in (peer, *groups):
            self._held[party] -= 1
            if not self._held[party]:
                del self._held[party]


class Connected(Generic[Key]):
    """Chooses peers to disconnect where a party has too many connections: those unused for
    longest.
    """

    def __init__(self, count: int) -> None:
        """`count`: connections that this node keeps."""
        self._share = share_of(count)
        # Seconds: when a peer came, or a call with it last went well
        self._used: dict[Key, float] = {}

    def used(self, peer: Key, now: float) -> None:
        """Notes that a call with this peer went well, or is under way."""
        self._used[peer] = now

    def surplus(self, connections: Sequence[tuple[Key, str]], now: float) -> list[Key]:
        """Peers to disconnect, so that no party has more than its share. `connections`: peer and
        multiaddr of each.

        A peer that has too many by itself goes before others in its network.
        """
        counted: list[tuple[Key, tuple[Key | str, ...]]] = [
            (peer, (peer, *groups))
            for peer, address in connections
            if (groups := groups_of(address))
        ]
        held: Counter[Key | str] = Counter(chain.from_iterable(parties for _, parties in counted))
        self._used = {peer: self._used.get(peer, now) for peer, _ in connections}
        if max(held.values(), default=0) <= self._share:  # as nearly always
            return []
        own: dict[Key, Counter[Key | str]] = {}  # what a peer's connections add to its parties
        for peer, parties in counted:
            own.setdefault(peer, Counter()).update(parties)
        closing = []
        for peer in sorted(
            own, key=lambda peer: (own[peer][peer] <= self._share, self._used[peer])
        ):
            if any(held[party] > self._share for party in own[peer]):
                held.subtract(own[peer])
                closing.append(peer)
        return closing


T = TypeVar("T")
NETWORK_SHARE = 4  # a network of addresses with more peers is chosen as often as if it had so many


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """The /24 (IPv4) or /48 (IPv6) of a multiaddr; "dns" for all host names, which cost as
    little as identities; else "".

    A relayed address names the relay: all peers behind one relay share its quota. All spellings of
    an IPv4 address are in its /24.
    """
    kind, host = [*address.split("/", 3)[1:3], "", ""][:2]
    if kind not in ("ip4", "ip6"):
        return "dns" if kind.startswith("dns") and host else ""
    try:
        return network_around(outer(ip_address(host)))
    except ValueError:
        return ""


@lru_cache(maxsize=4096)
def is_public(network: str) -> bool:
    """Whether a network is part of the internet: not a LAN, not this machine, not a host name, not
    unknown.
    """
    try:
        return ip_address(network.partition("/")[0]).is_global
    except ValueError:
        return False


def trim(addresses: Sequence[str], local_id: PeerId) -> tuple[str, ...]:
    """Own addresses as announced: without the trailing /p2p/ID, which repeats the announcement's
    author.
    """
    suffix = f"/p2p/{local_id}"
    short = [address.removesuffix(suffix) for address in addresses]
    fitting = [
        text
        for text in short
        if len(text) <= limits.MAX_ADDRESS_CHARS and re.fullmatch(ADDRESS_PATTERN, text)
    ]
    return tuple(dict.fromkeys(fitting))[: limits.MAX_ADDRESSES]


def full(addresses: Sequence[str], peer: PeerId) -> tuple[str, ...]:
    """Announced addresses as dialled: each ends in the peer's own id, so that it can lead to no
    other peer.
    """
    return tuple(f"{address}/p2p/{peer}" for address in addresses)


def in_turn(items: Sequence[T], count: int, party: Callable[[T], str], rng: Random) -> list[T]:
    """Up to `count` items, none twice: of each party one, in random order, then of each a second
    one, and so on. So a party with many items is chosen no more often than one with a few.
    """
    lines: dict[str, list[T]] = {}
    for item in rng.sample(items, len(items)):
        lines.setdefault(party(item), []).append(item)
    order = list[T]()
    while lines and len(order) < count:
        for name in rng.sample(sorted(lines), len(lines)):
            order.append(lines[name].pop())
            if not lines[name]:
                del lines[name]
    return order[: max(0, count)]


def fair_sample(
    items: Sequence[T], count: int, network: Callable[[T], str], rng: Random
) -> list[T]:
    """Up to `count` items, in random order, none twice. A network with n items weighs min(n,
    NETWORK_SHARE).

    Weighted sampling without replacement by exponential keys (Efraimidis and Spirakis, 2006).
    """
    if count <= 0:
        return []
    crowd = Counter(map(network, items))
    # All weigh the same: the usual case
    if len(crowd) == 1 or max(crowd.values(), default=0) <= NETWORK_SHARE:
        return rng.sample(items, min(count, len(items)))

    def key(item: T) -> float:
        size = crowd[network(item)]
        return -math.log(1.0 - rng.random()) / (min(size, NETWORK_SHARE) / size)

    return sorted(items, key=key)[:count]
