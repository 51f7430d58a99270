"""A host starts with every combination of role and options that the configuration allows."""

import asyncio

import pytest

from protocol.identity import Identity
from tests.network.hosts import started

pytestmark = pytest.mark.network
DEAD = f"/ip4/127.0.0.1/tcp/9/p2p/{Identity.from_seed_bytes(b'd' * 32).peer_id}"


@pytest.mark.parametrize("backend", ["hivemind", "libp2p"])
@pytest.mark.parametrize(
    "options",
    [
        {"relay": True, "peers": (DEAD,)},
        {"bootstrap": True, "relay": True, "peers": (DEAD,)},
        {"announce": ("/ip4/127.0.0.1/tcp/31330",), "gossipsub": True},
    ],
    ids=["node", "bootstrap", "announcing"],
)
def test_it_starts(backend: str, options: dict[str, object]) -> None:
    async def scenario() -> None:
        host = await started(backend, **options)  # type: ignore[arg-type]
        addresses = await host.addresses()
        assert addresses
        if "announce" in options:
            assert addresses == [f"/ip4/127.0.0.1/tcp/31330/p2p/{host.peer_id}"]
        await host.close()

    asyncio.run(asyncio.wait_for(scenario(), 30.0))
