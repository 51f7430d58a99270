"""Only what the user gives counts as given: addresses of cards, codes, homes and neighbours pass
the gate as those of announcements do.
"""

import json
from pathlib import Path

import pytest

from protocol.identity import Identity
from swarm_node.commands.join import remembered
from swarm_node.network.process.keeper import PEERS_FILE, load_memory
from swarm_node.network.process.messages import Memory
from swarm_node.network.process.service import NetworkService
from swarm_node.network.transport.backends import make_gate, never_dialled
from swarm_node.network.transport.gate import MIN_PORT
from swarm_node.settings import BootstrapConfig, NetworkConfig, NodeConfig
from swarm_node.settings.command_line import from_command_line, from_python
from swarm_node.settings.of_home import HOME_FILE
from swarm_node.swarm.code import Invitation, encode

PEER = Identity.from_seed_bytes(bytes(32)).peer_id


def full(ip: str, port: int = 31330) -> str:
    return f"/ip{6 if ':' in ip else 4}/{ip}/tcp/{port}/p2p/{PEER}"


VICTIMS = [
    full("127.88.1.1", 22),
    full("127.88.1.1", 2375),
    full("169.254.169.254", 80),
    full("169.254.169.254", 8080),
    full("100.100.100.200"),
    full("10.255.0.9", 6379),
    full("8.8.8.8", 53),
    full("::1", 6379),
    full("fd00:ec2::254", 8080),
]


@pytest.mark.parametrize("address", VICTIMS)
def test_what_a_card_or_a_code_names_is_never_dialled_where_an_announcement_would_not_be(
    address: str,
) -> None:
    suggested = NetworkConfig(suggested=(address,))
    assert make_gate(suggested).choose([address], 0.0).addresses == ()
    assert list(never_dialled(suggested, [address])) == [address]
    # The same by --peers is the user's will
    given = NetworkConfig(peers=(address,))
    assert make_gate(given).choose([address], 0.0).addresses == (address,)
    assert never_dialled(given, [address]) == {}


def test_a_card_still_leads_into_the_internet_and_on_loopback_to_who_listens_there_alone() -> None:
    world, here = full("45.1.1.1"), full("127.0.0.1", MIN_PORT)
    config = NetworkConfig(suggested=(world, here))
    assert make_gate(config).choose([world], 0.0).addresses == (world,)
    assert list(never_dialled(config, [world, here])) == [here]
    alone = config.model_copy(update={"host": "127.0.0.1"})
    assert never_dialled(alone, [world, here]) == {}
    assert make_gate(alone).choose([here], 0.0).addresses == (here,)


def test_a_suggested_address_opens_no_private_network_even_where_its_node_answers() -> None:
    world, neighbour = full("45.1.1.1"), full("10.255.0.9")
    gate = make_gate(NetworkConfig(suggested=(world,)))
    choice = gate.choose([world], 0.0)
    gate.reached(choice, [full("10.255.0.1")], 1.0)
    assert gate.choose([neighbour], 2.0).addresses == ()


def test_the_user_is_told_which_address_of_a_card_is_not_dialled_and_what_to_do() -> None:
    lines: list[str] = []
    config = NetworkConfig(host="127.0.0.1", suggested=(VICTIMS[0], full("45.1.1.1")))
    NetworkService(
        Identity.create(), "s", config, Memory(), print, lambda text, warning: lines.append(text)
    )
    (line,) = lines
    assert VICTIMS[0] in line and "port below 1024" in line and "give it with --peers" in line


@pytest.mark.parametrize("kept", ["network.peers", "network.suggested"])
def test_peers_in_a_home_are_suggested_ones_whoever_wrote_them(tmp_path: Path, kept: str) -> None:
    (tmp_path / HOME_FILE).write_text(f"{kept} = {json.dumps(VICTIMS[:2])}\n")
    words = ["--home", str(tmp_path)]
    for network in (
        from_command_line(NodeConfig, words, "swarm-node run").network,
        from_python(NodeConfig, None, {"home": str(tmp_path)}).network,
    ):
        assert (network.peers, network.suggested) == ((), tuple(VICTIMS[:2]))
    own = full("45.1.1.1")
    network = from_command_line(NodeConfig, [*words, "--peers", own], "swarm-node run").network
    assert (network.peers, network.suggested) == ((own,), ())


def test_a_bootstrap_node_takes_no_peers_of_its_home_either(tmp_path: Path) -> None:
    (tmp_path / HOME_FILE).write_text(f"peers = {json.dumps(VICTIMS[:1])}\n")
    config = from_command_line(BootstrapConfig, ["--home", str(tmp_path)], "swarm-node bootstrap")
    assert (config.peers, config.suggested) == ((), (VICTIMS[0],))


def test_join_remembers_the_addresses_of_a_code_as_suggested(tmp_path: Path) -> None:
    invited = Invitation((full("45.1.1.1"),), "friends")
    assert encode(invited)
    (tmp_path / HOME_FILE).write_text(remembered(invited, NodeConfig(), set()))
    network = from_command_line(NodeConfig, ["--home", str(tmp_path)], "swarm-node run").network
    assert (network.peers, network.suggested) == ((), invited.addresses)


@pytest.mark.parametrize("network", ["0.0.0.0/0", "10.0.0.0/8", "127.0.0.0/8", "::/0"])
def test_a_home_opens_no_private_network(tmp_path: Path, network: str) -> None:
    victim = full("10.255.0.9") if ":" not in network else full("fd12::9")
    peers = [{"id": PEER, "addresses": [victim]}]
    known = {"swarm": "s", "port": 1, "peers": peers, "private": [network]}
    (tmp_path / PEERS_FILE).write_text(json.dumps(known))
    memory = load_memory(tmp_path, "s")
    assert memory.peers == {PEER: (victim,)} and memory.private == ()
    assert make_gate(NetworkConfig(), memory.private).choose([victim], 0.0).addresses == ()
