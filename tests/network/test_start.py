"""A host starts with every combination of role and options that the configuration allows."""

import asyncio

import pytest

from protocol.identity import Identity
from swarm_node.network.process import service
from swarm_node.network.process.messages import Memory
from tests.network.hosts import config, started

pytestmark = pytest.mark.network
DEAD = f"/ip4/127.0.0.1/tcp/9/p2p/{Identity.from_seed_bytes(b'd' * 32).peer_id}"


@pytest.mark.parametrize("backend", ["hivemind", "libp2p"])
@pytest.mark.parametrize(
    "options",
    [
        {"relay": True, "peers": (DEAD,)},
        {"bootstrap": True, "relay": True, "peers": (DEAD,)},
        {"announce": ("/ip4/127.0.0.1/tcp/31330",)},
    ],
    ids=["node", "bootstrap", "announcing"],
)
async def test_it_starts(backend: str, options: dict[str, object]) -> None:
    host = await started(backend, **options)  # type: ignore[arg-type]
    addresses = await host.addresses()
    assert addresses
    if "announce" in options:
        assert addresses == [f"/ip4/127.0.0.1/tcp/31330/p2p/{host.peer_id}"]


async def test_bootstrap_nodes_that_do_not_reply_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "ENTRANCE_SECONDS", 1.0)
    warnings: asyncio.Queue[str] = asyncio.Queue()
    lonely = service.NetworkService(
        Identity.create(),
        "test",
        config("hivemind", peers=(DEAD,), mdns=False),
        Memory(),
        deliver=lambda envelope: None,
        say=lambda text, warning: warnings.put_nowait(text) if warning else None,
    )

    living = asyncio.create_task(lonely.live())
    text = await warnings.get()
    assert f"none of --peers answers ({DEAD}: " in text and "that the address is right" in text
    living.cancel()
    await asyncio.gather(living, return_exceptions=True)
