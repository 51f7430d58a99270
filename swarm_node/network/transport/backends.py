"""Chooses the backend among those that are registered. No network library is loaded before it is wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol

from protocol.identity import Identity
from swarm_node.common import plugins
from swarm_node.common.errors import UserError
from swarm_node.network.backend import Backend
from swarm_node.network.transport.dialable import Dialable
from swarm_node.network.transport.dialling import own_networks
from swarm_node.network.transport.gate import DialGate
from swarm_node.network.transport.listening import listen_addresses
from swarm_node.network.transport.multiaddr import split_peer, to_bytes
from swarm_node.settings import NetworkConfig


@dataclass(frozen=True)
class HostOptions:
    """What a backend is made of."""

    config: NetworkConfig
    identity: Identity
    listen: Sequence[str]  # multiaddrs
    relays: Sequence[str]  # full multiaddrs of nodes that may relay for this one
    bootstrap: bool  # also relay for others
    max_connections: int  # peers at the same time
    gate: DialGate | None  # before dials to addresses that came from others; None where there are no such
    sockets: Path | None  # where a daemon's folder of sockets is made; None: in the temporary folder


MAX_CONNECTIONS = 64  # peers of a node that trains, at the same time
MAX_INBOUND = 16  # requests of peers that are handled at the same time; more are refused


class BackendKind(Protocol):
    """What an entry point of the group `swarm_node.backends` names. Its module loads no network library."""

    def check_installed(self) -> None:
        """UserError of one line where the library is missing. Loads nothing."""
        ...

    def prepare(self, config: NetworkConfig) -> Path | None:
        """Load all that a backend will import, before this process is confined. The program that the backend will
        start, or None."""
        ...

    def make(self, options: HostOptions) -> Backend:
        """A backend that is not started yet. UserError where the library does not load."""
        ...


def check_installed(backend: str) -> None:
    """UserError of one line where the library of this backend is missing. Loads no library."""
    _kind(backend).check_installed()


def check_addresses(config: NetworkConfig) -> None:
    """UserError of one line for an address that makes no sense."""
    listen_addresses(config.host, config.port)
    for flag, addresses, check in (
        ("--peers", config.peers, split_peer),
        ("--network.announce", config.announce, to_bytes),
    ):
        try:
            for address in addresses:
                check(address)
        except ValueError as error:
            raise UserError(f"{flag}: {error}") from error


def make_gate(config: NetworkConfig, private: Sequence[str] = ()) -> DialGate:
    """For as long as a node lives: what it remembers outlives backends. `private`: ranges remembered from last time."""
    where = Dialable(config.peers, private, own_networks)
    if (host := ip_address(config.host)).is_loopback:  # so are all that could reach this node
        where.found(host)
    return DialGate(where)


def make_backend(
    config: NetworkConfig,
    identity: Identity,
    bootstrap: bool = False,
    gate: DialGate | None = None,
    sockets: Path | None = None,
    max_connections: int = MAX_CONNECTIONS,
) -> Backend:
    """Not started yet; see `HostOptions`. UserError for addresses that make no sense."""
    check_addresses(config)
    check_installed(config.backend)
    listen = listen_addresses(config.host, config.port)
    relays = config.peers if config.relay and not bootstrap else ()
    options = HostOptions(config, identity, listen, relays, bootstrap, max_connections, gate, sockets)
    return _kind(config.backend).make(options)


def prepare(config: NetworkConfig) -> Path | None:
    """Loads the library of the backend, while this process may, and says which program the backend will start; None for
    none. UserError where the library is missing."""
    check_installed(config.backend)
    if config.mdns:
        from swarm_node.network.transport import lan

        assert lan
    return _kind(config.backend).prepare(config)


def _kind(backend: str) -> BackendKind:
    kind: BackendKind = plugins.load("backends", backend)
    return kind
