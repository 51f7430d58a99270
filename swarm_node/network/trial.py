"""A network that does nothing, for a few seconds: can a node listen here, and do those that it knows answer?"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from protocol.identity import Identity
from swarm_node.common.errors import Finding, Level, UserError, printable
from swarm_node.network.backend import Backend, CallFailed
from swarm_node.network.process.keeper import load_memory
from swarm_node.network.process.runner import BootstrapNode, bootstrap_nodes, why
from swarm_node.network.process.service import free_port, reachability_line
from swarm_node.network.transport.backends import check_free, listen_addresses, make_backend
from swarm_node.network.transport.multiaddr import split_peer
from swarm_node.settings import NetworkConfig, NodeConfig

DIAL_SECONDS = 5.0
LOOK_SECONDS = 2.0  # for the network to find out its addresses
MAX_DIALLED = 16
REMEDY = "give the multiaddr of a running node with --peers, and see that its port can be reached from here"


def try_network(config: NodeConfig, home: Path, identity: Identity) -> Iterator[Finding]:
    """What a node would find if it started now."""
    memory = load_memory(home, config.swarm)
    port = config.network.port or memory.port
    try:
        check_free(listen_addresses(config.network.host, port))
        yield Finding("port", Level.OK, f"{port} is free" if port else "any free one is taken")
    except UserError as error:
        yield Finding("port", Level.NOTE, f"{error}; until then a free one is taken")
        port = 0
    given = [(peer, address) for address in config.network.peers for _, peer in [split_peer(address)]]
    found = bootstrap_nodes(given, memory.peers, identity.peer_id)[:MAX_DIALLED]
    network = config.network.model_copy(update={"port": port or free_port()})
    try:
        addresses = asyncio.run(_dial(network, identity, found))
    except UserError as error:
        yield Finding("network", Level.ALONE, str(error))
        return
    yield reach(addresses)
    yield from bootstrap_findings(found)
    if not found:
        yield Finding("peers", Level.ALONE, "none are known yet; " + REMEDY)
    elif not any(node.state == "answers" for node in found):
        yield Finding("peers", Level.ALONE, "none of those known answers; " + REMEDY)


async def _dial(config: NetworkConfig, identity: Identity, found: Sequence[BootstrapNode]) -> list[str]:
    """Dial all at once and note how each goes; own addresses as seen meanwhile. UserError where nothing starts."""
    backend = make_backend(config, identity)
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


def reach(addresses: Sequence[str]) -> Finding:
    """How others can reach a node with these addresses."""
    return Finding("reachability", Level.OK if addresses else Level.NOTE, reachability_line(addresses))


def bootstrap_findings(found: Sequence[BootstrapNode]) -> Iterator[Finding]:
    """How each of these nodes answered."""
    for node in found:
        good = node.state in ("connected", "answers")
        kind = "bootstrap node" if node.given else "known peer"
        advice = "" if good or not node.given else "; is it running, is its address right, does a firewall block it?"
        text = f"{node.addresses[0]}: {node.state}{advice}"
        yield Finding(kind, Level.OK if good else Level.NOTE, printable(text, 400))
