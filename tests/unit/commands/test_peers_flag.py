"""`--peers` is short for `--network.peers`, as often as one likes."""

from swarm_node.commands.arguments import with_peers
from swarm_node.settings import NodeConfig
from swarm_node.settings.sources import from_command_line

A = "/ip4/192.0.2.1/tcp/31330/p2p/12D3KooWA"
B = "/ip4/192.0.2.2/tcp/31330/p2p/12D3KooWB"


def test_repeated_and_in_one() -> None:
    for flags in (["--peers", A, "--peers", B], ["--peers", A, B], [f"--peers={A}", f"--peers={B}"]):
        config = from_command_line(NodeConfig, with_peers([*flags, "--max-rounds", "3"]), "swarm-node run")
        assert config.network.peers == (A, B)
        assert config.max_rounds == 3


def test_without_it_nothing_changes() -> None:
    assert with_peers(["--seed", "1"]) == ["--seed", "1"]
    assert NodeConfig().network.peers == ()
