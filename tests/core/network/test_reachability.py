"""One line about who can reach this node."""

import pytest

from swarm_node.network.process.service import reachability, reachability_line


@pytest.mark.parametrize(
    ("addresses", "kind"),
    [
        ([], "outbound only"),
        (["/ip4/127.0.0.1/tcp/1"], "loopback only"),
        (["/ip6/::1/tcp/1", "/ip4/192.168.1.5/tcp/1"], "local network"),
        (["/ip4/192.168.1.5/tcp/1", "/ip4/8.8.4.4/tcp/1/p2p-circuit"], "relayed"),
        (["/ip4/8.8.8.8/udp/1/quic-v1", "/ip4/8.8.4.4/tcp/1/p2p-circuit"], "relayed"),  # the NAT's
        (["/ip4/127.0.0.1/tcp/1", "/ip4/8.8.4.4/tcp/1"], "public"),
        (["/dns4/node.example/tcp/1"], "public"),
    ],
)
def test_the_best_address_decides(addresses: list[str], kind: str) -> None:
    assert reachability(addresses) == kind
    assert reachability_line(addresses).startswith(f"network: {kind}: ")
