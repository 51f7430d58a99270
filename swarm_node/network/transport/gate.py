"""The gate decides on every dial. Its rules are those of "Which addresses to dial" in
protocol/README.md, and protocol/vectors/dials.json judges them.

An announcement may name anybody's address, and a thousand nodes believe it; so may a card, a code,
a file in a home, or a neighbour on the local network. So the gate lets such an address be dialled
rarely until a peer has answered there, and never in networks that only this machine can see. What
the user gave by `--peers` is dialled wherever it is, less and less often while nobody answers.

A peer whose address must wait loses little, because a peer that is alive calls by itself. Dialling
back only peers that called would be safer, but nodes that know each other by gossip alone would
never meet. Pure: the time is an argument, in seconds of any clock that never goes back.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from math import inf
from typing import Any

from swarm_node.common.backoff import backoff
from swarm_node.common.lru import Lru
from swarm_node.network.access import Access
from swarm_node.network.parties import IP, PRIVATE, Range, network_around
from swarm_node.network.transport.multiaddr import parts

MIN_PORT = 1024  # mail, DNS, NTP and the web listen below it; a node never needs to

# Where clouds tell secrets, link-local, groups, and ranges that spell one address as another
_NEVER = [
    ip_network(network)
    for network in (
        "169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32",
        "168.63.129.16/32", "192.0.0.192/32", "0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4",
        "::/128", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "ff00::/8",
    )
]  # fmt: skip
_LOOPBACK_6 = ip_network("::1/128")  # inside ::/96, and yet an address of its own

# What is not the internet, besides. Python's `is_global` says so too, but differently in each
# release, and other clients do not have it.
_NOT_PUBLIC = [
    *PRIVATE,
    *(
        ip_network(network)
        for network in (
            "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "2001::/23", "2001:db8::/32", "3fff::/20",
        )
    ),
]  # fmt: skip
_PUBLIC_6 = ip_network("2000::/3")  # all that is given out of IPv6


@dataclass(frozen=True, slots=True)
class Target:
    """Where a dial would send its first packet: to the relay, where the address leads through
    one.
    """

    address: str  # full multiaddr
    ip: IP
    port: int
    udp: bool
    relayed: bool


def target_of(address: str) -> Target | None:
    """The target of an address; None where it begins with a host name. ValueError where it makes no
    sense.
    """
    (kind, host), (transport, port), *_ = [*parts(address), ("", ""), ("", "")]
    if kind not in ("ip4", "ip6"):
        return None
    if transport not in ("tcp", "udp"):
        raise ValueError(f"{address!r} has no port")
    ip = ip_address(host)
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return Target(address, ip, int(port), transport == "udp", "/p2p-circuit" in address)


def is_internet(ip: IP) -> bool:
    """Whether the address is one of the internet."""
    return (ip.version == 4 or ip in _PUBLIC_6) and not _within(ip, (*_NEVER, *_NOT_PUBLIC))


class Dialable:
    """Which addresses may be dialled. `interfaces`: the networks of this machine's own, at this
    moment.
    """

    longest_rest = 300.0  # seconds that an address of the user rests which has never answered

    def __init__(
        self,
        given: Sequence[str],
        allowed: Iterable[str],
        interfaces: Callable[[], Sequence[Range]],
    ) -> None:
        """`given`: full multiaddrs by this node's user, who may dial any. `allowed`: private ranges
        that `found` opened before, in this run.
        """
        self.private: set[Range] = set()  # opened by `found`
        self.access = Access()  # the lists of this node's user
        self._given = frozenset(map(_first_hop, given))
        self._entrances = frozenset(map(_entrance, given))
        self._allowed: set[Range] = {ip_network(each) for each in allowed}
        self._interfaces = interfaces
        for target in (target_of(address) for address in given):
            if target is not None:
                self.found(target.ip)

    def is_given(self, address: str) -> bool:
        """Whether the first hop of the address, its peer included, is one that the user gave."""
        try:
            return _first_hop(address) in self._given
        except ValueError:  # no address
            return False

    def is_entrance(self, address: str) -> bool:
        """Whether host and port of the first hop are those of an address that the user gave: for
        connections, whose addresses name no peer.
        """
        return _entrance(address) in self._entrances

    def found(self, ip: IP) -> None:
        """A peer that the user named is at `ip`: from now on, others in the same private range may
        be dialled too.
        """
        self.private |= {each for each in PRIVATE if ip in each}

    def objection(self, target: Target) -> str:
        """Why this target must not be dialled; "" where it may."""
        ip = target.ip
        if target.port < MIN_PORT:
            return f"port below {MIN_PORT}"
        if not self.access.address(target.address):
            return "blocked"
        if _within(ip, _NEVER) and ip not in _LOOPBACK_6:
            return "never dialled"
        return "" if is_internet(ip) or self.is_local(ip) else "not a public address"

    def is_local(self, ip: IP) -> bool:
        """Whether `ip` is in a network of this machine, or in one that the user allows. Loopback
        must be allowed.
        """
        here = (each for each in self._interfaces() if not each.is_loopback)
        return any(
            ip in each
            for each in (*self._allowed, *self.access.private_networks, *self.private, *here)
        )

    def crowd(self, target: Target) -> str:
        """What gets one dial in a while: a /24 (/48) of the internet, a host of a local network, a
        loopback port.
        """
        if target.ip.is_loopback:
            return f"{target.ip} {target.port}"
        if self.is_local(target.ip):
            return str(target.ip)
        return network_around(target.ip)


class Anywhere(Dialable):
    """Lets every address be dialled at any time: for a program whose user names each dial."""

    longest_rest = 0.0

    def __init__(self) -> None:
        super().__init__([], [], list)

    def is_given(self, address: str) -> bool:
        """True for every address."""
        return True


def _within(ip: IP, networks: Iterable[Range]) -> bool:
    return any(ip in network for network in networks)


@lru_cache(maxsize=4096)
def _first_hop(address: str) -> tuple[tuple[str, str], ...]:
    """The parts up to the first peer id: a node, or the relay that leads to one."""
    found = parts(address)
    names = [name for name, _ in found]
    return tuple(found[: names.index("p2p") + 1]) if "p2p" in names else tuple(found)


@lru_cache(maxsize=4096)
def _entrance(address: str) -> tuple[tuple[str, str], ...]:
    """Host and port of the first hop, as it is written."""
    return tuple(parts(address)[:2])


# Between two dials to unproven addresses of one /24 (/48); doubles with each failure
CROWD_SECONDS = 300.0
LOCAL_SECONDS = 5.0  # ... of one host of a local network, or one port of this machine
MAX_CROWD_SECONDS, MAX_LOCAL_SECONDS = 3600.0, 60.0
WINDOW_SECONDS = 60.0
WINDOW_DIALS = 20  # to unproven addresses, under way or failed, in a window
WINDOW_BYTES = 120_000  # ... and the bytes that they sent: 2 kB/s
LOOKUPS = 4  # host names from other peers looked up in a window
PROVEN_SECONDS = 3600.0  # that an address counts as proven after a peer answered there
CROWDS, PROVEN = 4096, 1024  # remembered
# Until an address of the user that did not answer is dialled again; doubles with each failure, up
# to `longest_rest`, or to this where it has answered in this run
GIVEN_SECONDS, KNOWN_SECONDS = 1.0, 15.0
# A dial of 5 s that nobody answers, with IP headers: docs/results/reflection.md
TCP_BYTES, QUIC_BYTES = 300, 12_800


@dataclass(frozen=True, slots=True)
class _Hold:
    until: float  # seconds
    failures: int  # in a row


@dataclass(frozen=True, slots=True)
class _Rest:
    """How an address of the user has answered."""

    until: float  # seconds
    failures: int  # in a row
    answered: bool  # ever, in this run


@dataclass(slots=True)
class Spent:
    """What a dial to an unproven address has cost, or may cost."""

    when: float  # seconds
    bytes: int


@dataclass(frozen=True, slots=True)
class DialDecision:
    """What to dial: some addresses, whose outcome goes to `reached` or `failed`; or nothing, and
    why.
    """

    addresses: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()  # those of them that came from other peers
    spent: Spent | None = None
    reason: str = ""

    @property
    def given(self) -> list[str]:
        """The addresses that this node's user gave."""
        others = {target.address for target in self.targets}
        return [address for address in self.addresses if address not in others]


@dataclass(slots=True)
class DialGate:
    """Belongs to a node, and outlives its backends: neither a new identity nor a new daemon resets
    its limits. It is kept in memory alone.
    """

    where: Dialable
    welcomes: Callable[[Any], bool] = lambda peer: True  # which peers may learn where this node is
    counters: Counter[str] = field(default_factory=Counter)
    _holds: Lru[str, _Hold] = field(default_factory=lambda: Lru(CROWDS))
    # By full address, so that nobody else named there delays the peer that the user named
    _rests: Lru[str, _Rest] = field(default_factory=lambda: Lru(CROWDS))
    # When a peer answered there
    _proven: Lru[tuple[IP, int], float] = field(default_factory=lambda: Lru(PROVEN))
    _window: deque[Spent] = field(default_factory=deque)
    _lookups: deque[float] = field(default_factory=deque)

    def choose(self, addresses: Sequence[str], now: float) -> DialDecision:
        """Which of these addresses of one peer to dial now: all that the user gave, except those
        that rest, and those where a peer answered before; if there are none, one, over TCP where
        there is a choice, as TCP sends a fortieth of the bytes.
        """
        reasons: dict[str, None] = {}
        given, others = list[str](), list[str]()
        for address in addresses:
            (given if self.where.is_given(address) else others).append(address)
        ready = tuple(address for address in given if self._is_ready(address, now))
        if len(ready) < len(given):
            reasons["it did not answer just now"] = None
        targets = [target for address in others if (target := self._target(address, reasons))]
        proven = tuple(target for target in targets if self._is_proven(target, now))
        if ready or proven:
            return DialDecision((*ready, *(target.address for target in proven)), proven)
        for target in sorted(targets, key=lambda target: target.udp):
            if reason := self._too_soon(target, now):
                reasons[reason] = None
                continue
            spent = Spent(now, QUIC_BYTES if target.udp else TCP_BYTES)
            self._window.append(spent)
            self._hold(target, now, failed=False)
            return DialDecision((target.address,), (target,), spent)
        reason = next(iter(reasons), "no address")
        self.counters[f"dials held back: {reason}"] += 1
        return DialDecision(reason=reason)

    def woke(self) -> None:
        """This node has slept: addresses of the user that did not answer may be dialled at once.
        For those of others the limits stay, as a sleep makes no address safer.
        """
        for address, rest in list(self._rests.items()):
            self._rests[address] = _Rest(-inf, 0, rest.answered)

    def reached(self, choice: DialDecision, ends: Sequence[str], now: float) -> None:
        """The peer is connected at the addresses `ends`: it has answered only there."""
        for address in choice.given:
            self._rests[address] = _Rest(-inf, 0, answered=True)
        found = [target for end in ends if (target := parsed(end))]
        for target in found:
            if (target.ip, target.port) in {(each.ip, each.port) for each in choice.targets}:
                self.proves(target, now)
            elif choice.addresses and not choice.targets:
                self.where.found(target.ip)
        if choice.spent is not None and choice.spent in self._window:
            self._window.remove(choice.spent)

    def proves(self, target: Target, now: float) -> None:
        """A peer was found at this address."""
        self._proven[target.ip, target.port] = now
        crowd = self.where.crowd(target)
        if hold := self._holds.get(crowd):
            self._holds[crowd] = _Hold(hold.until, 0)

    def failed(self, choice: DialDecision, now: float, further: int = 0) -> None:
        """Nobody answered, so the addresses are no longer proven. A relay's address stays: the
        relay may be there when the peer behind it is not. `further`: bytes sent to addresses that
        the gate did not choose.
        """
        for address in choice.given:
            if "/p2p-circuit" not in address:
                self._rest(address, now)
        for target in choice.targets:
            if not target.relayed:
                self._proven[target.ip, target.port] = -inf
                self._hold(target, now, failed=True)
        if further:
            self._window.append(Spent(now, further))
            self.counters["dials that went where nobody announced"] += 1

    def may_look_up(self, now: float) -> bool:
        """Whether to look up a host name that came from other peers: a lookup sends packets too."""
        while self._lookups and now - self._lookups[0] >= WINDOW_SECONDS:
            self._lookups.popleft()
        if len(self._lookups) >= LOOKUPS:
            self.counters["dials held back: too many names"] += 1
            return False
        self._lookups.append(now)
        return True

    def _target(self, address: str, reasons: dict[str, None]) -> Target | None:
        target = parsed(address)
        reason = self.where.objection(target) if target else "not an address"
        if reason:
            reasons[reason] = None
        return None if reason else target

    def _is_proven(self, target: Target, now: float) -> bool:
        when = self._proven.get((target.ip, target.port))
        return when is not None and now - when < PROVEN_SECONDS

    def _too_soon(self, target: Target, now: float) -> str:
        """Why this unproven address must wait; "" where it need not."""
        hold = self._holds.get(self.where.crowd(target))
        if hold is not None and now < hold.until:
            return "its network was dialled just now"
        while self._window and now - self._window[0].when >= WINDOW_SECONDS:
            self._window.popleft()
        cost = QUIC_BYTES if target.udp else TCP_BYTES
        spent = sum(it.bytes for it in self._window)
        if len(self._window) >= WINDOW_DIALS or spent + cost > WINDOW_BYTES:
            return "too many failed attempts"
        return ""

    def _is_ready(self, address: str, now: float) -> bool:
        rest = self._rests.get(address)
        return rest is None or now >= rest.until

    def _rest(self, address: str, now: float) -> None:
        before = self._rests.get(address) or _Rest(-inf, 0, answered=False)
        longest = KNOWN_SECONDS if before.answered else self.where.longest_rest
        pause = backoff(before.failures, GIVEN_SECONDS, min(longest, self.where.longest_rest))
        self._rests[address] = _Rest(now + pause, before.failures + 1, before.answered)

    def _hold(self, target: Target, now: float, failed: bool) -> None:
        """Notes that the target is dialled, or that the dial has failed: until the pause is over,
        nobody of its crowd is dialled again. The pause doubles with every failure.
        """
        crowd = self.where.crowd(target)
        local = self.where.is_local(target.ip)
        first, longest = (
            (LOCAL_SECONDS, MAX_LOCAL_SECONDS) if local else (CROWD_SECONDS, MAX_CROWD_SECONDS)
        )
        before = self._holds.get(crowd)
        failures = (before.failures if before else 0) + failed
        pause = min(longest, first * 2.0 ** min(max(0, failures - 1), 16))
        self._holds[crowd] = _Hold(now + pause, failures)


def parsed(address: str) -> Target | None:
    """The target of an address; None where it begins with a host name or makes no sense."""
    try:
        return target_of(address)
    except ValueError:
        return None
