"""Where a dial may go at all when others named the address: not into networks that only this machine can see."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address, ip_network

from swarm_node.network.access import Access
from swarm_node.network.parties import IP, PRIVATE, SHARED_BITS, Range
from swarm_node.network.transport.multiaddr import parts

MIN_PORT = 1024  # mail, names, time and the web listen below it; a node never needs to

_NEVER = [  # where clouds tell secrets, and ways to write one address as another
    ip_network(each)
    for each in (
        "169.254.0.0/16",
        "fe80::/10",
        "fd00:ec2::254/128",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "0.0.0.0/8",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2002::/16",
        "2001::/32",
    )
]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a dial would send its first packet: to the relay, where the address leads through one."""

    address: str  # full multiaddr
    ip: IP
    port: int
    udp: bool
    relayed: bool


def target_of(address: str) -> Target | None:
    """None for an address that begins with a name. ValueError where it makes no sense."""
    (kind, host), (transport, port), *_ = [*parts(address), ("", ""), ("", "")]
    if kind not in ("ip4", "ip6"):
        return None
    if transport not in ("tcp", "udp"):
        raise ValueError(f"{address!r} has no port")
    ip = ip_address(host)
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return Target(address, ip, int(port), transport == "udp", "/p2p-circuit" in address)


class Dialable:
    """Which addresses of others may be dialled. `interfaces`: the networks of this machine's own, at this moment."""

    def __init__(self, given: Sequence[str], allowed: Iterable[str], interfaces: Callable[[], Sequence[Range]]) -> None:
        """`given`: multiaddrs by this node's user, who may dial whatever they like. `allowed`: ranges that
        were found so before."""
        self.private: set[Range] = set()  # those of `found`
        self.access = Access()  # the lists of this node's user
        self._given = frozenset(map(_entrance, given))
        self._allowed: set[Range] = {ip_network(each) for each in allowed}
        self._interfaces = interfaces
        for target in (target_of(address) for address in given):
            if target is not None:
                self.found(target.ip)

    def is_given(self, address: str) -> bool:
        """Whether it leads to where the user said, or through there."""
        return _entrance(address) in self._given

    def found(self, ip: IP) -> None:
        """A peer that the user named is there: whoever else is in the same private range may be dialled as well."""
        self.private |= {each for each in PRIVATE if ip in each}

    def objection(self, target: Target) -> str:
        """Why it must not be dialled; "" where it may."""
        ip = target.ip
        if target.port < MIN_PORT:
            return f"port below {MIN_PORT}"
        if not self.access.address(target.address):
            return "blocked"
        if ip.is_multicast or ip.is_unspecified or ip.is_reserved or any(ip in each for each in _NEVER):
            return "never dialled"
        return "" if ip.is_global or self.is_local(ip) else "not a public address"

    def is_local(self, ip: IP) -> bool:
        """Whether it is in a network of this machine's own, or one that the user allows. Loopback needs the latter."""
        here = (each for each in self._interfaces() if not each.is_loopback)
        return any(ip in each for each in (*self._allowed, *self.access.private_networks, *self.private, *here))

    def crowd(self, target: Target) -> str:
        """What one dial in a while may go to: a /24 of the internet, a host of a local network, a port of this one."""
        if target.ip.is_loopback:
            return f"{target.ip} {target.port}"
        if self.is_local(target.ip):
            return str(target.ip)
        return str(ip_network((target.ip, SHARED_BITS[target.ip.version]), strict=False))


class Anywhere(Dialable):
    """Everything, as if the user had given it."""

    def __init__(self) -> None:
        super().__init__([], [], list)

    def is_given(self, address: str) -> bool:
        """Of every address."""
        return True


@lru_cache(maxsize=4096)
def _entrance(address: str) -> tuple[tuple[str, str], ...]:
    """Host and port of the first hop, as it is written."""
    return tuple(parts(address)[:2])
