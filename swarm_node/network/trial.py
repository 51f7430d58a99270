"""A network that runs for seconds: can a node listen, do the peers it knows answer, and which cards
do they have?
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from protocol import wire
from protocol.identity import Identity
from swarm_node.common.errors import Finding, Severity, UserError, printable
from swarm_node.network.backend import Backend, CallFailed
from swarm_node.network.process.keeper import load_memory
from swarm_node.network.process.runner import BootstrapNode, bootstrap_nodes, why
from swarm_node.network.process.service import free_port, reachability_line
from swarm_node.network.transport.backends import check_free, listen_addresses, make_gate
from swarm_node.network.transport.libraries import make_backend
from swarm_node.network.transport.multiaddr import split_peer
from swarm_node.settings import NetworkConfig, NodeConfig

DIAL_SECONDS = 5.0
CARDS_SECONDS, REDIRECTS = 15.0, 2  # seconds for all cards of a peer or a URL; redirects of a URL
MAX_CARDS = 64  # asked for: a network with more is joined by a file
LOOK_SECONDS = 2.0  # for the network to find out its addresses
MAX_DIALLED = 16
Holds = Callable[[Sequence[bytes]], bool]
REMEDY = (
    "give the multiaddr of a running node with --peers, and see that its port can be reached "
    "from here"
)


def try_network(config: NodeConfig, home: Path, identity: Identity) -> Iterator[Finding]:
    """What a node would find if it started now."""
    memory = load_memory(home, config.swarm)
    port = config.network.port or memory.port
    try:
        check_free(listen_addresses(config.network.host, port))
        yield Finding("port", Severity.OK, f"{port} is free" if port else "any free one is taken")
    except UserError as error:
        yield Finding("port", Severity.NOTE, f"{error}; until then a free one is taken")
        port = 0
    named = (*config.network.peers, *config.network.suggested)
    given = [(split_peer(address)[1], address) for address in named]
    found = bootstrap_nodes(given, memory.peers, identity.peer_id)[:MAX_DIALLED]
    network = config.network.model_copy(update={"port": port or free_port()})
    try:
        addresses = asyncio.run(_dial(network, identity, found))
    except UserError as error:
        yield Finding("network", Severity.ALONE, str(error))
        return
    yield reach(addresses)
    yield from bootstrap_findings(found)
    if not found:
        yield Finding("peers", Severity.ALONE, "none are known yet; " + REMEDY)
    elif not any(node.state == "answers" for node in found):
        yield Finding("peers", Severity.ALONE, "none of those known answers; " + REMEDY)


async def _dial(
    config: NetworkConfig, identity: Identity, found: Sequence[BootstrapNode]
) -> list[str]:
    """Dials all at once and notes how each goes; returns this node's addresses. UserError where no
    backend starts.
    """
    backend = make_backend(config, identity, gate=make_gate(config))
    try:
        await backend.start({}, {})
        await asyncio.gather(asyncio.sleep(LOOK_SECONDS), *(_try(backend, node) for node in found))
        return await backend.addresses()
    except CallFailed:
        return []
    finally:
        await backend.close()


async def _try(backend: Backend, node: BootstrapNode) -> None:
    try:
        async with asyncio.timeout(DIAL_SECONDS + 1.0):
            await backend.dial(node.addresses, DIAL_SECONDS)
        node.state = "answers"
    except (CallFailed, TimeoutError) as error:
        node.state = why(error)


def ask_for_cards(
    config: NetworkConfig,
    addresses: Sequence[str],
    network: str,
    holds: Holds,
    proves: Callable[[Identity], bytes],
) -> list[bytes]:
    """The cards of a network from the first peer at these full multiaddrs whose cards pass `holds`;
    else from any that answers; else none. `proves`: this newcomer's proof of membership. UserError
    where no backend starts.
    """
    identity = Identity.create()
    gate = make_gate(config)
    backend = make_backend(config.model_copy(update={"port": free_port()}), identity, gate=gate)
    proof = proves(identity)

    async def first() -> list[bytes]:
        cards = list[bytes]()
        try:
            await backend.start({}, {})
            for asking in asyncio.as_completed(
                [_cards(backend, each, network, proof) for each in addresses]
            ):
                if holds(cards := await asking or cards):
                    break
        finally:
            await backend.close()
        return cards

    return asyncio.run(first())


def download(url: str, most: int) -> bytes:
    """The content of a URL: up to `most` bytes and a few more. UserError, one line."""
    import httpx  # only here, as few need it

    from swarm_node.common.http import async_client
    from swarm_node.common.proxies import through

    async def get() -> bytes:
        asked, data = httpx.URL(url), b""
        async with (
            asyncio.timeout(CARDS_SECONDS),
            async_client(timeout=CARDS_SECONDS) as client,
        ):
            for _ in range(1 + REDIRECTS):
                plain = {"accept-encoding": "identity"}  # a compressed reply may unpack to any size
                async with client.stream("GET", asked, headers=plain) as reply:
                    asked = reply.next_request.url if reply.next_request else asked
                    if reply.next_request is None or asked.scheme != httpx.URL(url).scheme:
                        reply.raise_for_status()
                        async for chunk in reply.aiter_raw():
                            data += chunk
                            if len(data) > most:
                                break
                        return data
        raise ValueError("it leads from one address to another")

    try:
        return asyncio.run(get())
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
        why = str(error).partition("\n")[0] or "no answer in time"
        asked_for = f"{printable(url, 200)}{through(url)}"
        raise UserError(f"{asked_for}: {printable(why, 120)}") from error


async def _cards(backend: Backend, address: str, network: str, proof: bytes) -> list[bytes]:
    cards, most = list[bytes](), 1 << 16  # bytes, as protocol/limits.py has it
    with suppress(CallFailed, TimeoutError):
        async with asyncio.timeout(CARDS_SECONDS):
            peer = await backend.dial((address,), DIAL_SECONDS)
            if proof:  # the peer's own cannot be judged before the card is here
                await backend.call(peer, wire.ENTER, proof, most, DIAL_SECONDS)
            while len(cards) < MAX_CARDS:
                request = wire.encode_card_request(network, len(cards))
                found = wire.decode_cards(
                    await backend.call(peer, wire.CARD, request, most, DIAL_SECONDS)
                )
                if not isinstance(found, list) or not found:
                    break
                cards += found
    return cards


def reach(addresses: Sequence[str]) -> Finding:
    """How others can reach a node with these addresses."""
    return Finding(
        "reachability", Severity.OK if addresses else Severity.NOTE, reachability_line(addresses)
    )


def bootstrap_findings(found: Sequence[BootstrapNode]) -> Iterator[Finding]:
    """How each of these nodes answered."""
    for node in found:
        good = node.state in ("connected", "answers")
        kind = "bootstrap node" if node.given else "known peer"
        advice = (
            ""
            if good or not node.given
            else "; check that it is running, that its address is right, and that no firewall "
            "blocks it"
        )
        text = f"{node.addresses[0]}: {node.state}{advice}"
        yield Finding(kind, Severity.OK if good else Severity.NOTE, printable(text, 400))
