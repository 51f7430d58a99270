"""`--peers` is short for `--network.peers`, and may be repeated."""

import pytest

from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line

A = "/ip4/192.0.2.1/tcp/31330/p2p/12D3KooWA"
B = "/ip4/192.0.2.2/tcp/31330/p2p/12D3KooWB"


def peers(*flags: str) -> tuple[str, ...]:
    config = from_command_line(NodeConfig, [*flags, "--max-rounds", "3"], "swarm-node run")
    assert config.max_rounds == 3
    return config.network.peers


@pytest.mark.parametrize(
    "flags",
    [
        ("--peers", A, "--peers", B),
        ("--peers", A, B),
        ("--peers", f"{A},{B}"),
        (f"--peers={A}", "--seed", "1", f"--peers={B}"),
        ("--network.peers", A, B),
    ],
)
def test_repeated_and_in_one(flags: tuple[str, ...]) -> None:
    assert peers(*flags) == (A, B)


def test_they_take_the_place_of_those_in_the_file(tmp_path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(f'[network]\npeers = ["{A}"]\n')
    assert peers(str(file)) == (A,)
    assert peers(str(file), "--peers", B) == (B,)


def test_without_it_nothing_changes() -> None:
    assert peers() == NodeConfig().network.peers == ()
