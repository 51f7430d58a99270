"""What makes the backend `libp2p`. It loads py-libp2p when one is made."""

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from swarm_node.common.errors import UserError
from swarm_node.network.backend import Backend
from swarm_node.network.transport.backends import HostOptions
from swarm_node.settings import NetworkConfig


class Libp2p:
    """Makes backends of the extra `libp2p`. They start no program."""

    def check_installed(self) -> None:
        if find_spec("libp2p") is None:
            raise UserError(
                "py-libp2p is not installed; run: pip install 'textswarm[libp2p]', or choose the "
                "backend hivemind"
            )

    def prepare(self, config: NetworkConfig) -> Path | None:
        with suppress(ImportError):  # `make` reports it
            from swarm_node.network.transport.libp2p import backend

            assert backend
        return None

    def make(self, options: HostOptions) -> Backend:
        try:
            from swarm_node.network.transport.libp2p.backend import Libp2pBackend
        except ImportError as error:
            raise UserError(
                f"py-libp2p does not load ({error}); run: pip install 'textswarm[libp2p]'"
            ) from error
        return Libp2pBackend(options)


LIBP2P = Libp2p()
