"""Chooses the backend. Neither library is loaded before it is wanted."""

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from pathlib import Path

from protocol.identity import Identity
from swarm_node.common.errors import UserError
from swarm_node.network.backend import Backend
from swarm_node.network.transport.dialable import Dialable
from swarm_node.network.transport.dialling import own_networks
from swarm_node.network.transport.gate import DialGate
from swarm_node.network.transport.listening import listen_addresses
from swarm_node.network.transport.multiaddr import split_peer, to_bytes
from swarm_node.settings import NetworkConfig

INSTALL = {
    "hivemind": "hivemind is not installed; run: pip install hivemind, or choose the backend libp2p",
    "libp2p": "py-libp2p is not installed; run: pip install 'swarm-node[libp2p]', or choose the backend hivemind",
}


def check_installed(backend: str) -> None:
    """UserError of one line where the library of this backend is missing. Loads nothing."""
    if find_spec(backend) is None:
        raise UserError(INSTALL[backend])


def check_addresses(config: NetworkConfig) -> None:
    """UserError of one line for an address that makes no sense."""
    listen_addresses(config.host, config.port)
    for flag, addresses, check in (
        ("--peers", config.peers, split_peer),
        ("--network.announce", config.announce, to_bytes),
        ("--network.private-networks", config.private_networks, ip_network),
    ):
        try:
            for address in addresses:
                check(address)
        except ValueError as error:
            raise UserError(f"{flag}: {error}") from error


def make_gate(config: NetworkConfig, private: Sequence[str] = ()) -> DialGate:
    """For as long as a node lives: what it remembers outlives backends. `private`: ranges remembered from last time."""
    where = Dialable(config.peers, [*config.private_networks, *private], own_networks)
    if (host := ip_address(config.host)).is_loopback:  # so are all that could reach this node
        where.found(host)
    return DialGate(where)


def make_backend(
    config: NetworkConfig,
    identity: Identity,
    bootstrap: bool = False,
    gate: DialGate | None = None,
    sockets: Path | None = None,
) -> Backend:
    """Not started yet. `bootstrap`: also relay for others. `gate`: before dials to addresses that came from others;
    None where there are no such. `sockets`: where a daemon's folder of sockets is made; None: in the temporary folder.
    UserError for addresses that make no sense."""
    check_addresses(config)
    check_installed(config.backend)
    listen = listen_addresses(config.host, config.port)
    relays = config.peers if config.relay and not bootstrap else ()
    if config.backend == "libp2p":
        return _libp2p(config, identity, listen, relays, gate)
    from swarm_node.network.transport.hivemind_backend import HivemindBackend
    from swarm_node.network.transport.p2pd import Flags

    flags = Flags(
        listen=listen,
        announce=config.announce,
        relay_service=bootstrap,
        max_connections=config.max_connections,
        binary=config.p2pd,
        sockets=sockets,
    )
    return HivemindBackend(identity, flags, config.max_inbound, relays, gate)


def prepare(config: NetworkConfig) -> Path | None:
    """Loads the library of the backend, while this process may, and says which program the backend will start; None for
    none. UserError where the library is missing."""
    check_installed(config.backend)
    if config.mdns:
        import_module("swarm_node.network.transport.lan")
    if config.backend == "libp2p":
        with suppress(ImportError):  # said when the backend is made
            import_module("swarm_node.extensions.libp2p.backend")
        return None
    from swarm_node.network.transport import hivemind_backend, p2pd

    assert hivemind_backend
    p2pd.pb()
    return p2pd.program(config.p2pd)


def _libp2p(
    config: NetworkConfig, identity: Identity, listen: Sequence[str], relays: Sequence[str], gate: DialGate | None
) -> Backend:
    try:
        from swarm_node.extensions.libp2p.backend import Libp2pBackend
    except ImportError as error:
        raise UserError(f"py-libp2p does not load ({error}); run: pip install 'swarm-node[libp2p]'") from error
    return Libp2pBackend(identity, listen, config.announce, config.max_connections, config.max_inbound, relays, gate)
