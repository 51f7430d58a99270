"""Where this machine stands in its networks: the address by which it meets others, and whether that
has changed.

A laptop is carried from one network to another, a lease ends, a cable is pulled. A backend listens
on addresses of one family and has learned how others see them, so in another network it is replaced
by a new one. While the machine is in no network at all, nobody is dialled: nobody else is to blame.
"""

import ipaddress
import socket
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

import psutil

from swarm_node.network.transport.gate import is_internet, parsed

# Reserved for documentation. To ask the kernel for the way there sends no packet
FAR_AWAY = {4: ("192.0.2.1", 9), 6: ("2001:db8::1", 9)}
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
# Looks that must agree before a node counts as elsewhere: on joining a network, its addresses of
# IPv6 and IPv4 come one after another
AGREEING = 2


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the machine stands at one moment."""

    family: int  # 4 or 6, as of the addresses on which a node listens here
    source: str  # the address of that family by which the machine meets others; "": none
    present: frozenset[str] = frozenset()  # all addresses of its interfaces


def standing(host: str) -> Standing:
    """Where this machine stands now, for a node that listens on `host`."""
    ip, present = ipaddress.ip_address(host), present_addresses()
    if ip.is_loopback:
        return Standing(ip.version, host, frozenset([host]))
    if not ip.is_unspecified:
        return Standing(ip.version, host if host in present else "", present)
    usable = {version: _usable(present, version) for version in FAMILIES}
    family = 6 if ip.version == 6 or (usable[6] and not usable[4]) else 4
    routed = _routed(family)
    source = routed if routed in usable[family] else min(usable[family], default="")
    return Standing(family, source, present)


def present_addresses() -> frozenset[str]:
    """All IP addresses of this machine's interfaces."""
    entries = chain.from_iterable(psutil.net_if_addrs().values())
    return frozenset(
        entry.address.partition("%")[0] for entry in entries if entry.family in FAMILIES.values()
    )


def may_be_here(address: str, present: frozenset[str]) -> bool:
    """Whether this node can still be reached at a multiaddr of its own: not at one of a local
    network that none of its interfaces has any more. One of the internet may be that of a NAT.
    """
    target = parsed(address)
    return target is None or is_internet(target.ip) or str(target.ip) in present


def is_loopback(address: str) -> bool:
    """Whether a multiaddr leads to this machine itself."""
    target = parsed(address)
    return target is not None and target.ip.is_loopback


def _usable(present: frozenset[str], version: int) -> list[str]:
    """The addresses of a family by which others may be met."""
    ips = [ip for ip in map(ipaddress.ip_address, present) if ip.version == version]
    return [str(ip) for ip in ips if not (ip.is_loopback or ip.is_link_local)]


def _routed(version: int) -> str:
    """The address by which this machine would reach the internet; "" where it has no way there."""
    try:
        with socket.socket(FAMILIES[version], socket.SOCK_DGRAM) as probe:
            probe.connect(FAR_AWAY[version])
            return str(probe.getsockname()[0])
    except OSError:
        return ""


class Change(StrEnum):
    """What has become of the machine since the last look."""

    NONE = "none"
    AWAY = "in no network"
    BACK = "back where it was"
    ELSEWHERE = "elsewhere"


class Moves:
    """Compares where the machine stands with where it stood. Pure."""

    def __init__(self, first: Standing) -> None:
        """`first`: where it stood when the present backend began."""
        self._before = first
        self._away = not first.source
        self._agreeing, self._last = 0, first

    def take(self, now: Standing) -> Change:
        """What has changed, by one look more. ELSEWHERE only once, after `AGREEING` looks."""
        if not now.source:
            self._away, self._agreeing = True, 0
            return Change.AWAY
        if self._moved(now):
            same = (now.family, now.source) == (self._last.family, self._last.source)
            self._agreeing = self._agreeing + 1 if same else 1
            self._last = now
            if self._agreeing < AGREEING:
                return Change.AWAY if self._away else Change.NONE
            self._before, self._away, self._agreeing = now, False, 0
            return Change.ELSEWHERE
        self._before, self._agreeing = now, 0
        back, self._away = self._away, False
        return Change.BACK if back else Change.NONE

    def _moved(self, now: Standing) -> bool:
        """Whether the backend listens by another family than it would now, or the address is gone
        by which this machine met others.
        """
        before = self._before
        gone = bool(before.source) and before.source not in now.present
        return gone or now.family != before.family
