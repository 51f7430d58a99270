"""What the network process keeps in the home folder: whom it knows (peers.json), and its exchange's memory.

Both files are conveniences: one that is missing, broken or of another swarm is left alone, and a full disk costs only
what would have been remembered.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork, ValidationError

from protocol.messages import PeerId
from swarm_node.common import private
from swarm_node.common.files import write_bytes, write_json
from swarm_node.network.process.messages import ExchangeState, Memory
from swarm_node.network.transport import multiaddr

PEERS_FILE = "peers.json"
EXCHANGE_FILE = "exchange.json"
MAX_PEERS = 64
MAX_ADDRESSES = 4  # of one peer
MAX_RANGES = 16
MAX_FILE_BYTES = 4 * 1024 * 1024


class _Peer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: Annotated[str, Field(max_length=128)]
    addresses: Annotated[list[str], Field(max_length=MAX_ADDRESSES)]


class _Peers(BaseModel):
    model_config = ConfigDict(extra="forbid")
    swarm: str
    port: Annotated[int, Field(ge=0, le=65535)]
    peers: Annotated[list[_Peer], Field(max_length=MAX_PEERS)]
    private: Annotated[list[IPvAnyNetwork], Field(max_length=MAX_RANGES)] = []


class _Kept(msgspec.Struct):
    swarm: str
    state: ExchangeState


def load(home: Path, swarm: str) -> Memory:
    """What this home remembers of this swarm; empty where it remembers nothing that can be used."""
    try:
        known = _Peers.model_validate_json(_read(home / PEERS_FILE))
    except (OSError, ValidationError):
        known = _Peers(swarm=swarm, port=0, peers=[])
    if known.swarm != swarm:
        return Memory(port=known.port, exchange={}, peers={})
    private = tuple(map(str, known.private))
    return Memory(port=known.port, exchange=_exchange(home, swarm), peers=_valid(known.peers), private=private)


def save(home: Path, swarm: str, memory: Memory) -> None:
    """Whole or not at all, each file. Raises OSError."""
    peers = [{"id": peer, "addresses": addresses[:MAX_ADDRESSES]} for peer, addresses in memory.peers.items()]
    known = {"swarm": swarm, "port": memory.port, "peers": peers[:MAX_PEERS], "private": memory.private[:MAX_RANGES]}
    write_json(home / PEERS_FILE, known)
    write_bytes(home / EXCHANGE_FILE, json.dumps({"swarm": swarm, "state": memory.exchange}).encode())


def _read(path: Path) -> bytes:
    return private.read_plain(path, MAX_FILE_BYTES)


def _exchange(home: Path, swarm: str) -> ExchangeState:
    try:
        kept = msgspec.json.decode(_read(home / EXCHANGE_FILE), type=_Kept)
    except (OSError, ValueError, RecursionError):
        return {}
    return kept.state if kept.swarm == swarm else {}


def _valid(peers: Iterable[_Peer]) -> dict[PeerId, tuple[str, ...]]:
    """Peers with addresses that can be dialled and name that very peer."""
    known: dict[PeerId, tuple[str, ...]] = {}
    for peer in peers:
        addresses = tuple(address for address in peer.addresses if _names(address, peer.id))
        if addresses:
            known[PeerId(peer.id)] = addresses
    return known


def _names(address: str, peer: str) -> bool:
    try:
        return multiaddr.split_peer(address)[1] == peer
    except ValueError:
        return False
