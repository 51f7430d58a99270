"""The libraries that carry messages between nodes, by the names that `network.backend` has for
them. A file of the user's may hold another: FILE:NAME of a `BackendKind`.
"""

from collections.abc import Mapping
from pathlib import Path

from protocol.identity import Identity
from swarm_node.common import plugins
from swarm_node.network.backend import Backend
from swarm_node.network.transport.backends import (
    MAX_CONNECTIONS,
    BackendKind,
    HostOptions,
    check_addresses,
    listen_addresses,
)
from swarm_node.network.transport.gate import DialGate
from swarm_node.network.transport.hivemind_backend import HIVEMIND
from swarm_node.network.transport.libp2p.library import LIBP2P
from swarm_node.settings import NetworkConfig

BACKENDS: Mapping[str, BackendKind] = {"hivemind": HIVEMIND, "libp2p": LIBP2P}


def check_installed(backend: str) -> None:
    """UserError of one line where the library of this backend is missing. Loads no library."""
    _kind(backend).check_installed()


def make_backend(
    config: NetworkConfig,
    identity: Identity,
    bootstrap: bool = False,
    gate: DialGate | None = None,
    sockets: Path | None = None,
    max_connections: int = MAX_CONNECTIONS,
) -> Backend:
    """A backend that is not started yet; see `HostOptions`. UserError for addresses that make no
    sense.
    """
    check_addresses(config)
    check_installed(config.backend)
    listen = listen_addresses(config.host, config.port)
    relays = (*config.peers, *config.suggested) if config.relay and not bootstrap else ()
    options = HostOptions(
        config, identity, listen, relays, bootstrap, max_connections, gate, sockets
    )
    return _kind(config.backend).make(options)


def prepare(config: NetworkConfig) -> Path | None:
    """Loads the library of the backend, while this process still may. Returns the program that the
    backend will start, or None. UserError where the library is missing.
    """
    check_installed(config.backend)
    if config.mdns:
        from swarm_node.network.transport import lan

        assert lan
    return _kind(config.backend).prepare(config)


def _kind(backend: str) -> BackendKind:
    return plugins.chosen("backends", backend, BACKENDS)
