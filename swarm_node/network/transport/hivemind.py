"""Registers hivemind's daemon p2pd as the backend `hivemind`, which is the default."""

from importlib.util import find_spec
from pathlib import Path

from swarm_node.common.errors import UserError
from swarm_node.network.backend import Backend
from swarm_node.network.transport.backends import MAX_INBOUND, HostOptions
from swarm_node.settings import NetworkConfig


class Hivemind:
    """Makes backends that drive p2pd."""

    def check_installed(self) -> None:
        if find_spec("hivemind") is None:
            raise UserError("hivemind is not installed; run: pip install hivemind, or choose another backend")

    def prepare(self, config: NetworkConfig) -> Path | None:
        from swarm_node.network.transport import hivemind_backend, p2pd  # noqa: F401  a confined process reads less

        p2pd.pb()
        return p2pd.program(config.p2pd)

    def make(self, options: HostOptions) -> Backend:
        from swarm_node.network.transport.hivemind_backend import HivemindBackend
        from swarm_node.network.transport.p2pd import Flags

        config = options.config
        flags = Flags(
            listen=options.listen,
            announce=config.announce,
            relay_service=options.bootstrap,
            max_connections=options.max_connections,
            binary=config.p2pd,
            sockets=options.sockets,
        )
        return HivemindBackend(options.identity, flags, MAX_INBOUND, options.relays, options.gate)


HIVEMIND = Hivemind()
