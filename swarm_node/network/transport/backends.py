"""What every backend is made of, and where it listens: checked before a library is started.
libraries.py lists the backends.
"""

import errno
import ipaddress
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import chain
from pathlib import Path
from typing import Protocol

import psutil

from protocol.identity import Identity
from swarm_node.common.errors import UserError
from swarm_node.network.backend import Backend
from swarm_node.network.parties import Range
from swarm_node.network.transport.dialling import own_networks
from swarm_node.network.transport.gate import Dialable, DialGate, parsed
from swarm_node.network.transport.multiaddr import parts, split_peer, to_bytes
from swarm_node.settings import NetworkConfig

ANY_IPV4, ANY_IPV6 = ip_address("0.0.0.0"), ip_address("::")  # noqa: S104  others are to connect


def listen_addresses(host: str, port: int) -> list[str]:
    """TCP and QUIC on the same port (0: a free one of each). All addresses are those of IPv6 where
    the machine has no others. UserError where `host` is no IP address.
    """
    try:
        ip = ipaddress.ip_address(host)
    except ValueError as error:
        raise UserError(
            f"--network.host: {host!r} is not an IP address; 0.0.0.0 listens on all of this machine"
        ) from error
    if ip == ANY_IPV4 and only_ipv6():
        ip = ANY_IPV6
    base = f"/ip{ip.version}/{ip}"
    return [f"{base}/tcp/{port}", f"{base}/udp/{port}/quic-v1"]


def only_ipv6() -> bool:
    """Whether others can reach this machine by IPv6 alone: no interface has another IPv4 address
    than that of the machine itself, and one has an IPv6 address.
    """
    families: set[int] = set()
    for entry in chain.from_iterable(psutil.net_if_addrs().values()):
        if entry.family in (socket.AF_INET, socket.AF_INET6):
            ip = ipaddress.ip_address(entry.address.partition("%")[0])
            if not ip.is_loopback and not ip.is_link_local:
                families.add(entry.family)
    return families == {socket.AF_INET6}


def own_loopback() -> str:
    """The address by which this machine alone reaches itself: of IPv6 only where there is no
    other.
    """
    own = {entry.address for entry in chain.from_iterable(psutil.net_if_addrs().values())}
    return "/ip6/::1" if "::1" in own and "127.0.0.1" not in own else "/ip4/127.0.0.1"


def on_interfaces(address: str) -> list[str]:
    """What others can dial when this address is bound: the wildcard address stands for those of all
    interfaces.
    """
    (network, host), *_ = parts(address)
    if not ipaddress.ip_address(host).is_unspecified:
        return [address]
    family = socket.AF_INET if network == "ip4" else socket.AF_INET6
    found = (
        entry
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family == family
    )
    # No link-local IPv6: needs an interface
    hosts = [entry.address for entry in found if "%" not in entry.address]
    return [address.replace(f"/{network}/{host}/", f"/{network}/{it}/", 1) for it in hosts]


def check_free(listen: Sequence[str]) -> None:
    """UserError where a port is taken: p2pd would share it with its owner, or go on with only one
    transport.
    """
    for address in listen:
        (network, host), (transport, port), *_ = parts(address)
        family = socket.AF_INET if network == "ip4" else socket.AF_INET6
        kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
        try:
            with socket.socket(family, kind) as probe:
                # Else connections of an earlier run that are still closing would count
                if transport == "tcp":
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, int(port)))
        except OSError as error:
            raise UserError(_reason(error.errno, host, port, transport)) from error


def _reason(number: int | None, host: str, port: str, transport: str) -> str:
    where = f"{host} port {port}/{transport}"
    if number == errno.EADDRINUSE:
        return (
            f"cannot listen on {where}: another program uses it; stop that, or choose another "
            "--network.port"
        )
    if number == errno.EACCES:
        return f"cannot listen on {where}: not allowed; choose a --network.port above 1023"
    if number in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return (
            f"cannot listen on {where}: this machine has no such address; "
            "use --network.host 0.0.0.0"
        )
    what = errno.errorcode.get(number or 0, "error")
    return f"cannot listen on {where}: {what}; choose another --network.host or --network.port"


MAX_CONNECTIONS = 64  # peers of a node that trains, at the same time
MAX_INBOUND = 16  # requests of peers that are handled at the same time; others wait for their turn


@dataclass(frozen=True)
class HostOptions:
    """What a backend is made of."""

    config: NetworkConfig
    identity: Identity
    listen: Sequence[str]  # multiaddrs
    # Full multiaddrs of nodes that may relay for this one, if it turns out to need that
    relays: Sequence[str] = ()
    bootstrap: bool = False  # also relay for others
    max_connections: int = MAX_CONNECTIONS  # peers at the same time
    # For dials to addresses that came from other peers; None where there are none
    gate: DialGate | None = None
    # Where a daemon's folder of sockets is made; None: in the temporary folder
    sockets: Path | None = None


class BackendKind(Protocol):
    """Makes the backends of one library. Its module loads no network library."""

    def check_installed(self) -> None:
        """UserError of one line where the library is missing. Loads nothing."""
        ...

    def prepare(self, config: NetworkConfig) -> Path | None:
        """Load all that a backend will import, before this process is confined. Returns the program
        that the backend will start, or None.
        """
        ...

    def make(self, options: HostOptions) -> Backend:
        """A backend that is not started yet. UserError where the library does not load."""
        ...


def check_addresses(config: NetworkConfig) -> None:
    """UserError of one line for an address that makes no sense."""
    listen_addresses(config.host, config.port)
    if config.p2pd and not os.access(Path(config.p2pd).expanduser(), os.X_OK):
        raise UserError(
            f"--network.p2pd: {config.p2pd} is not a program that this user can start; correct the "
            "path, or make it executable"
        )
    for flag, addresses, check in (
        ("--peers", config.peers, split_peer),
        ("--network.suggested", config.suggested, split_peer),
        ("--network.announce", config.announce, to_bytes),
    ):
        try:
            for address in addresses:
                check(address)
                if "/tcp/" not in address and "/quic-v1" not in address:
                    raise ValueError(
                        f"{address!r} names no port: it must have /tcp/31330 or /udp/31330/quic-v1"
                    )
        except ValueError as error:
            raise UserError(f"{flag}: {error}") from error


def make_gate(
    config: NetworkConfig,
    private: Sequence[str] = (),
    interfaces: Callable[[], Sequence[Range]] = own_networks,
) -> DialGate:
    """The gate of a node, which outlives its backends. Of all addresses only those of `--peers` are
    the user's. `private`: private ranges that an earlier network process of this run opened.
    """
    where = Dialable(config.peers, private, interfaces)
    # Then so are all peers that can reach this node
    if (host := ip_address(config.host)).is_loopback:
        where.found(host)
    return DialGate(where)


def never_dialled(config: NetworkConfig, addresses: Sequence[str]) -> dict[str, str]:
    """The full multiaddrs that a node of this configuration never dials, each with the reason. A
    host name is judged when it is looked up.
    """
    where = make_gate(config).where
    found = {
        address: where.objection(target)
        for address in addresses
        if not where.is_given(address) and (target := parsed(address)) is not None
    }
    return {address: reason for address, reason in found.items() if reason}
