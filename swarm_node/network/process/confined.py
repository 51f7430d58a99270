"""The one place where a process that talks to strangers is confined: the network process, and a bootstrap node."""

import threading
from collections.abc import Mapping
from pathlib import Path

from swarm_node.common import landlock
from swarm_node.network.confinement import Confinement, Layers, of_this_process
from swarm_node.network.process.descriptors import raise_limit
from swarm_node.network.transport import backends
from swarm_node.settings import NetworkConfig


def confine(config: NetworkConfig, sockets: Path, homes: Mapping[Path, int] | None = None) -> Layers:
    """Binds this process, which must not have a second thread yet, for good. It keeps `sockets`, the folder where its
    daemon's are made, and `homes`, with rights of common.landlock. UserError where the backend is not installed."""
    assert threading.active_count() == 1, "threads that exist already would not be bound"
    daemon = backends.prepare(config)
    raise_limit()  # as it cannot be raised any more afterwards
    confinement = Confinement(of_this_process({sockets: landlock.OWN, **(homes or {})}, daemon))
    try:
        return confinement.enter()
    finally:
        confinement.close()
