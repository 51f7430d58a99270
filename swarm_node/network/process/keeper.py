"""What the network keeps in the home folder: whom it knows (peers.json), its exchange's memory, and the user's lists.

It runs beside the network and not in it: the process that talks to strangers has no access to the home. What is
remembered is a convenience: a file that is missing, broken or of another swarm is left alone, and a full disk costs
only what would have been remembered.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork, ValidationError

from protocol.messages import PeerId
from swarm_node.common import private
from swarm_node.common.files import write_bytes, write_json
from swarm_node.network.access import Access, parse
from swarm_node.network.process.messages import ExchangeState, Memory
from swarm_node.network.transport import multiaddr

ACCESS_FILE = "access.toml"
MAX_BYTES = 8 * 1024 * 1024  # the lists go to the network process in one frame


class AccessFile:
    """What the file says now. One that cannot be read changes nothing, and is complained about once."""

    def __init__(self, home: Path) -> None:
        self._path = home / ACCESS_FILE
        self._seen: tuple[int, int] | None = None  # when it was written, and its size
        self.access = Access()

    def look(self) -> str:
        """Reads it if it has changed. A line for the user; "" where there is nothing to say."""
        try:
            status = self._path.stat()
        except OSError:
            gone, self._seen, self.access = self._seen is not None, None, Access()
            return f"{ACCESS_FILE} is gone: nobody is blocked" if gone else ""
        if (status.st_mtime_ns, status.st_size) == self._seen:
            return ""
        self._seen = status.st_mtime_ns, status.st_size
        try:
            if status.st_size > MAX_BYTES:
                raise ValueError(f"larger than {MAX_BYTES} bytes")
            self.access = parse(self._path.read_text())
        except (OSError, ValueError) as error:
            return f"{self._path}: {error}; what it said before goes on"
        return f"{ACCESS_FILE} was read"


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


def load_memory(home: Path, swarm: str) -> Memory:
    """What this home remembers of this swarm; empty where it remembers nothing that can be used."""
    try:
        known = _Peers.model_validate_json(_read(home / PEERS_FILE))
    except (OSError, ValidationError):
        known = _Peers(swarm=swarm, port=0, peers=[])
    if known.swarm != swarm:
        return Memory(port=known.port, exchange={}, peers={})
    private = tuple(map(str, known.private))
    return Memory(port=known.port, exchange=_exchange(home, swarm), peers=_valid(known.peers), private=private)


def save_memory(home: Path, swarm: str, memory: Memory) -> None:
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


ADDRESSES_FILE = "addresses"  # own full multiaddrs, one a line, for scripts that want to dial this node
SAVE_SECONDS = 30.0
LISTS_SECONDS = 2.0  # between two looks whether the user's lists have changed


class Keeper:
    """Of one home and swarm. `run` for as long as the network lives."""

    def __init__(
        self,
        home: Path,
        swarm: str,
        memory: Callable[[], Memory],
        allow: Callable[[Access], None],
        say: Callable[[str, bool], None],
    ) -> None:
        """`memory` is what is to be saved; `allow` takes the lists when they have changed; `say` a line for the user,
        and whether it is a warning."""
        self._home, self._swarm = home, swarm
        self._memory, self._allow, self._say = memory, allow, say
        self._lists = AccessFile(home)
        self._unsaved = False  # whether the last attempt to save failed

    def look(self) -> None:
        """At the lists, which may change at any time."""
        if said := self._lists.look():
            self._say(f"network: {said}", False)
            self._allow(self._lists.access)

    def addresses(self, addresses: Sequence[str]) -> None:
        """Writes this node's addresses down, where that is possible: a convenience."""
        with suppress(OSError):
            write_bytes(self._home / ADDRESSES_FILE, "".join(f"{address}\n" for address in addresses).encode())

    async def run(self) -> None:
        """Until it is cancelled; saves a last time then."""
        try:
            while True:
                for _ in range(round(SAVE_SECONDS / LISTS_SECONDS)):
                    self.look()
                    await asyncio.sleep(LISTS_SECONDS)
                self._save()
        finally:
            self._save()

    def _save(self) -> None:
        try:
            save_memory(self._home, self._swarm, self._memory())
            self._unsaved = False
        except OSError as error:
            if not self._unsaved:
                self._say(f"network: peers cannot be saved in {self._home}: {error.strerror}; make room there", True)
            self._unsaved = True
