"""A card or a code names a victim's address: real nodes hardly ever connect there, and still join
by addresses that are good.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.identity import Identity
from swarm_node.network.process.runner import bootstrap_nodes
from swarm_node.network.transport.multiaddr import split_peer
from swarm_node.network.trial import _dial, ask_for_cards
from tests.network.members import Member, closing, config
from tests.waiting import until

pytestmark = pytest.mark.network
SECONDS = 12.0
NAMED = 16  # addresses on a card, at most
# One dial of each address is let pass at 0 s, and the next ones 5 and 15 s after it failed
MOST = 3


class Victim:
    """Listens on loopback, counts connections, and answers nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.88.1.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections = 0

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def victim() -> Iterator[Victim]:
    found = Victim()
    thread = threading.Thread(target=found.serve, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.close()
        thread.join()


def names(port: int) -> tuple[str, ...]:
    """A victim's address, as the home of so many peers that nobody has met."""
    peers = [Identity.create().peer_id for _ in range(NAMED)]
    return tuple(f"/ip4/127.88.1.1/tcp/{port}/p2p/{peer}" for peer in peers)


@pytest.mark.parametrize("backend", ["hivemind", "libp2p"])
def test_a_card_full_of_a_victims_address_costs_the_victim_a_few_connections_and_the_good_one_leads(
    tmp_path: Path, backend: str
) -> None:
    good = Member(tmp_path / "good", config())
    with victim() as aim, closing(good):
        suggested = (*names(aim.port), *good.addresses())
        node = Member(tmp_path / "node", config(backend=backend, suggested=suggested))
        with closing(node):
            until(lambda: good.id in node.view()["connections"], what="joining by the card")
            until(lambda: time.monotonic() - node.began > SECONDS, what="the time")
        assert 1 <= aim.connections <= MOST


@pytest.mark.parametrize("backend", ["hivemind", "libp2p"])
def test_asking_for_cards_and_trying_the_network_pass_the_gate_too(backend: str) -> None:
    with victim() as aim:
        asked = names(aim.port)
        settings = config(backend=backend, suggested=asked)
        assert ask_for_cards(settings, asked, "a" * 26, bool, lambda identity: b"") == []
        assert aim.connections == 1
        found = bootstrap_nodes(
            [(split_peer(address)[1], address) for address in asked], {}, Identity.create().peer_id
        )
        asyncio.run(_dial(settings, Identity.create(), found))
        assert aim.connections == 2
        assert sum("dialled just now" in node.state for node in found) == NAMED - 1
