"""The one place where a process that talks to strangers is confined: the network process, and a
bootstrap node.
"""

import resource
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from swarm_node.common import linux
from swarm_node.network.confinement import Confinement, Layers, of_this_process
from swarm_node.network.transport import libraries
from swarm_node.settings import NetworkConfig

# Open files: p2pd inherits the limit, and has 64 to 512 peers, and many more that say nothing yet
WANTED = 8192


def raise_limit(wanted: int = WANTED) -> str:
    """Raises the limit of open files, if the system lets it. A line for the user if that is too
    low; else "".
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    reach = wanted if hard == unlimited else min(wanted, hard)
    if soft != unlimited and soft < reach:
        with suppress(OSError, ValueError):  # macOS has a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (reach, hard))
            soft = reach
    if soft == unlimited or soft >= wanted:
        return ""
    return (
        f"only {soft} open files are allowed, so a flood of connections shuts newcomers out; "
        f"allow {wanted} (ulimit -n)"
    )


def confine(
    config: NetworkConfig, sockets: Path, homes: Mapping[Path, int] | None = None
) -> Layers:
    """Confines this process, which must not have a second thread yet, for good. It keeps `sockets`,
    the folder for its daemon's sockets, and `homes`, with rights of common.linux. UserError where
    the backend is not installed.
    """
    assert threading.active_count() == 1, "threads that exist already would not be bound"
    daemon = libraries.prepare(config)
    raise_limit()  # as it cannot be raised any more afterwards
    paths = of_this_process({sockets: linux.OWN, **(homes or {})}, daemon)
    confinement = Confinement(paths, config.port)
    try:
        return confinement.enter()
    finally:
        confinement.close()
