"""The peer cache: a node knows at its next start what it saved, and a damaged or missing file does
no harm.
"""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from protocol.identity import Identity
from swarm_node.network.actions import Remembered
from swarm_node.network.process.keeper import (
    EXCHANGE_FILE,
    MAX_ADDRESSES,
    PEERS_FILE,
    load_memory,
    save_memory,
)
from swarm_node.network.process.messages import MAX_PEERS, Memory
from swarm_node.network.transport.gate import Dialable, target_of

A, B = (Identity.from_seed_bytes(bytes([n]) * 32).peer_id for n in (1, 2))
ADDRESS = f"/ip4/192.0.2.1/tcp/31330/p2p/{A}"
MEMORY = Memory(port=40001, exchange=Remembered(seq=9), peers={A: (ADDRESS,)})
EMPTY = Memory()


def test_what_was_saved_is_known_next_time(tmp_path: Path) -> None:
    save_memory(tmp_path, "here", MEMORY)
    assert load_memory(tmp_path, "here") == MEMORY
    assert sorted(path.name for path in tmp_path.iterdir()) == [EXCHANGE_FILE, PEERS_FILE]


def test_peers_of_another_swarm_are_not_called(tmp_path: Path) -> None:
    save_memory(tmp_path, "here", MEMORY)
    assert load_memory(tmp_path, "there") == replace(EMPTY, port=40001)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xff", b"[]", b"[" * 100_000, b'{"swarm": 3}', b"0" * 100_000]
)
def test_a_damaged_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    save_memory(tmp_path, "here", MEMORY)
    (tmp_path / PEERS_FILE).write_bytes(content)
    assert load_memory(tmp_path, "here").peers == {}
    save_memory(tmp_path, "here", MEMORY)
    (tmp_path / EXCHANGE_FILE).write_bytes(content)
    assert load_memory(tmp_path, "here") == replace(MEMORY, exchange=Remembered())


def test_only_addresses_that_name_their_peer_are_taken(tmp_path: Path) -> None:
    wrong = [
        f"/ip4/192.0.2.1/tcp/1/p2p/{B}",
        "/ip4/192.0.2.1/tcp/1",
        "nonsense",
        f"/ip4/1.2.3.4/tcp/99999/p2p/{A}",
    ]
    peers = [
        {"id": A, "addresses": [wrong[0], ADDRESS, wrong[1]]},
        {"id": B, "addresses": wrong[1:]},
    ]
    (tmp_path / PEERS_FILE).write_text(json.dumps({"swarm": "here", "port": 1, "peers": peers}))
    assert load_memory(tmp_path, "here").peers == {A: (ADDRESS,)}


def test_it_is_bounded(tmp_path: Path) -> None:
    peers = {
        (peer := Identity.from_seed_bytes(n.to_bytes(32, "big")).peer_id): tuple(
            f"/ip4/192.0.2.1/tcp/{port}/p2p/{peer}" for port in range(1, 20)
        )
        for n in range(1, 200)
    }
    save_memory(tmp_path, "here", replace(MEMORY, peers=peers))
    known = load_memory(tmp_path, "here").peers
    assert list(known) == list(peers)[:MAX_PEERS]
    assert all(len(addresses) == MAX_ADDRESSES for addresses in known.values())


def test_where_nothing_can_be_written_the_old_files_stay(tmp_path: Path) -> None:
    save_memory(tmp_path, "here", MEMORY)
    with pytest.raises(OSError):
        save_memory(tmp_path / "missing", "here", MEMORY)
    assert load_memory(tmp_path, "here") == MEMORY


RANGES = (
    "0.0.0.0/0", "::/0", "8.0.0.0/8", "127.0.0.0/8", "::1/128", "169.254.0.0/16", "10.0.0.0/7",
    "192.168.1.0/24", "10.0.0.0/8", "fc00::/7", "10.0.0.1", "", "x",
)  # fmt: skip


@pytest.mark.parametrize("range_", RANGES)
def test_a_restored_file_opens_no_network(tmp_path: Path, range_: str) -> None:
    """A home or a backup may be a stranger's: no range in it leads anywhere."""
    memory = replace_private(tmp_path, [range_])
    assert memory.private == () and memory.peers == MEMORY.peers
    where = Dialable([], memory.private, list)
    for host in ("127.0.0.1", "169.254.169.254", "192.168.1.1", "10.0.0.9"):
        target = target_of(f"/ip4/{host}/tcp/31330/p2p/{A}")
        assert target and where.objection(target), host


def replace_private(home: Path, ranges: list[str]) -> Memory:
    """What is remembered where the file names these ranges."""
    save_memory(home, "here", MEMORY)
    known = json.loads((home / PEERS_FILE).read_text())
    (home / PEERS_FILE).write_text(json.dumps({**known, "private": ranges}))
    return load_memory(home, "here")
