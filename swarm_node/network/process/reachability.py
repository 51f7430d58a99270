"""How others can reach this node, in one word and one line, from the addresses it can be reached by."""

from collections.abc import Sequence
from enum import StrEnum

from swarm_node.network.transport.multiaddr import usefulness


class Reachability(StrEnum):
    """How others can reach a node, the best way first."""

    PUBLIC = "public"
    RELAYED = "relayed"
    LOCAL = "local network"
    LOOPBACK = "loopback only"
    OUTBOUND = "outbound only"


_KINDS = (Reachability.PUBLIC, Reachability.RELAYED, Reachability.LOCAL, Reachability.LOOPBACK)  # as usefulness counts
_MEANING = {
    Reachability.PUBLIC: "others reach this node directly",
    Reachability.RELAYED: "behind NAT, others reach this node through a relay, and then directly if the NATs allow it",
    Reachability.LOCAL: "nodes of the local network reach this node, those beyond it only when it calls them",
    Reachability.LOOPBACK: "only this machine reaches this node; others need a network, and --network.host 0.0.0.0",
    Reachability.OUTBOUND: "nobody can call this node, it calls others; it trains and shares all the same",
}


def reachability(addresses: Sequence[str]) -> Reachability:
    """Of the best of these full multiaddrs; but whoever has relays found no public address of its own at the start.

    p2pd lists the address of the NAT as one of the node's when four others have seen it there.
    """
    if any("/p2p-circuit" in address for address in addresses):
        return Reachability.RELAYED
    return _KINDS[min(map(usefulness, addresses))] if addresses else Reachability.OUTBOUND


def line(addresses: Sequence[str]) -> str:
    """For a person, at the start."""
    kind = reachability(addresses)
    return f"network: {kind}: {_MEANING[kind]}"
