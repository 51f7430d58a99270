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
