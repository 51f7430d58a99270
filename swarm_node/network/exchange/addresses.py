"""Which network of addresses a peer sits in: identities are free, addresses are not, so quotas go by address."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import ip_address, ip_network
from random import Random
from typing import TypeVar

from protocol import limits
from protocol.messages import ADDRESS_PATTERN, PeerId
from swarm_node.network.parties import SHARED_BITS, outer

T = TypeVar("T")
NETWORK_SHARE = 4  # however many peers a network of addresses holds, it is chosen as often as so many


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """The /24 (IPv4) or /48 (IPv6) of a multiaddr; "dns" for all host names, which are free like identities; else "".

    A relayed address names the relay: who sits behind one relay shares its quota. All spellings of an IPv4 address are
    in its /24.
    """
    parts = address.split("/", 3)
    if len(parts) < 3:
        return ""
    if parts[1] not in ("ip4", "ip6"):
        return "dns" if parts[1].startswith("dns") else ""
    try:
        ip = outer(ip_address(parts[2]))
    except ValueError:
        return ""
    return str(ip_network((ip, SHARED_BITS[ip.version]), strict=False))


@lru_cache(maxsize=4096)
def is_public(network: str) -> bool:
    """Whether it is part of the internet: not a LAN, not this machine, not a name, not unknown."""
    try:
        return ip_address(network.partition("/")[0]).is_global
    except ValueError:
        return False


def trim(addresses: Sequence[str], local_id: PeerId) -> tuple[str, ...]:
    """Own addresses as announced: without the trailing /p2p/ID that the author's name says already."""
    suffix = f"/p2p/{local_id}"
    short = [address.removesuffix(suffix) for address in addresses]
    fitting = [text for text in short if len(text) <= limits.MAX_ADDRESS_CHARS and re.fullmatch(ADDRESS_PATTERN, text)]
    return tuple(dict.fromkeys(fitting))[: limits.MAX_ADDRESSES]


def full(addresses: Sequence[str], peer: PeerId) -> tuple[str, ...]:
    """Announced addresses as dialled: each ends in the peer's own id, so that it can lead to nobody else."""
    return tuple(f"{address}/p2p/{peer}" for address in addresses)


def fair_sample(items: Sequence[T], count: int, network: Callable[[T], str], rng: Random) -> list[T]:
    """Up to `count` items, in random order, none twice. A network with n items weighs min(n, NETWORK_SHARE).

    Weighted sampling without replacement by exponential keys (Efraimidis and Spirakis, 2006).
    """
    if count <= 0:
        return []
    crowd = Counter(map(network, items))
    if len(crowd) == 1 or max(crowd.values(), default=0) <= NETWORK_SHARE:  # all weigh the same, as mostly
        return rng.sample(items, min(count, len(items)))

    def key(item: T) -> float:
        size = crowd[network(item)]
        weight = min(size, NETWORK_SHARE) / size
        return -math.log(1.0 - rng.random()) / weight

    return sorted(items, key=key)[:count]
