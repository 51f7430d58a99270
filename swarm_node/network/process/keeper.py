"""What the network keeps in the home: whom it knows (peers.json), its exchange's memory, the user's lists, the cards.

It runs beside the network and not in it: the process that talks to strangers has no access to the home. What is
remembered is a convenience: a file that is missing, broken or of another swarm is left alone, and a full disk costs
only what would have been remembered.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from protocol.card import MAX_BYTES, MAX_CARDS, Card, Refusal, follow, network_of, swarm_of
from protocol.messages import PeerId
from swarm_node.common.files import read_plain, write_bytes, write_json
from swarm_node.network.access import Access, parse
from swarm_node.network.actions import Remembered
from swarm_node.network.process.messages import MAX_PEERS, Memory
from swarm_node.network.transport import multiaddr

ADDRESSES_FILE = "addresses"  # own full multiaddrs, one a line, for scripts that want to dial this node
ACCESS_FILE = "access.toml"  # the lists: no command writes them, so that scripts can, and users copy them
PEERS_FILE = "peers.json"
EXCHANGE_FILE = "exchange.json"
CARDS_FILE = "swarm.card"  # one a line, the oldest first
MAX_LISTS_BYTES = 8 * 1024 * 1024  # the lists go to the network process in one frame
MAX_FILE_BYTES = 4 * 1024 * 1024  # of the other two
MAX_ADDRESSES = 4  # of one peer
MAX_RANGES = 16
SAVE_SECONDS = 30.0
LISTS_SECONDS = 2.0  # between two looks whether the user's lists have changed


class _Peer(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=128)]
    addresses: Annotated[list[str], Meta(max_length=MAX_ADDRESSES)]


class _Peers(msgspec.Struct, forbid_unknown_fields=True):
    swarm: str
    port: Annotated[int, Meta(ge=0, le=65535)]
    peers: Annotated[list[_Peer], Meta(max_length=MAX_PEERS)]
    private: Annotated[list[str], Meta(max_length=MAX_RANGES)] = []


class _Exchange(msgspec.Struct):
    swarm: str
    state: Remembered


def load_memory(home: Path, swarm: str) -> Memory:
    """What this home remembers of this swarm; nothing but the port where it remembers nothing that can be used."""
    known, kept = _Peers(swarm=swarm, port=0, peers=[]), _Exchange(swarm, Remembered())
    with suppress(OSError, ValueError, RecursionError):
        read = msgspec.json.decode(read_plain(home / PEERS_FILE, MAX_FILE_BYTES), type=_Peers)
        read.private = [str(ip_network(each)) for each in read.private]
        known = read
    if known.swarm != swarm:
        return Memory(port=known.port)
    with suppress(OSError, ValueError, RecursionError):
        kept = msgspec.json.decode(read_plain(home / EXCHANGE_FILE, MAX_FILE_BYTES), type=_Exchange)
    found = {each.id: tuple(address for address in each.addresses if _names(address, each.id)) for each in known.peers}
    return Memory(
        port=known.port,
        exchange=kept.state if kept.swarm == swarm else Remembered(),
        peers={PeerId(peer): addresses for peer, addresses in found.items() if addresses},
        private=tuple(known.private),
    )


def save_memory(home: Path, swarm: str, memory: Memory) -> None:
    """Whole or not at all, each file. Raises OSError."""
    peers = [{"id": peer, "addresses": addresses[:MAX_ADDRESSES]} for peer, addresses in memory.peers.items()]
    known = {"swarm": swarm, "port": memory.port, "peers": peers[:MAX_PEERS], "private": memory.private[:MAX_RANGES]}
    write_json(home / PEERS_FILE, known)
    write_bytes(home / EXCHANGE_FILE, msgspec.json.encode(_Exchange(swarm, memory.exchange)))


def _names(address: str, peer: str) -> bool:
    """Whether the address can be dialled and names that very peer."""
    try:
        return multiaddr.split_peer(address)[1] == peer
    except ValueError:
        return False


def load_cards(file: Path) -> tuple[tuple[bytes, ...], Card | Refusal | None]:
    """The chain in it, and its newest card, which may have expired, or why the chain does not hold. None: no file."""
    try:
        lines = read_plain(file, MAX_CARDS * (MAX_BYTES + 1))
    except OSError as error:
        return (), None if isinstance(error, FileNotFoundError | NotADirectoryError) else Refusal.MALFORMED
    chain = tuple(lines.removesuffix(b"\n").split(b"\n"))
    return chain, follow(chain, "", None)


def keep_cards(file: Path, chain: Sequence[bytes], now: float, network: str = "") -> Card | Refusal:
    """Writes a chain down that holds, is in force, and goes on from the one there. `now`: seconds since 1970."""
    _, kept = load_cards(file)
    if isinstance(kept, Refusal):
        return kept
    found = follow(chain, network or (network_of(kept) if kept else ""), int(now), kept)
    if isinstance(found, Card) and found != kept:
        write_bytes(file, b"".join(card + b"\n" for card in chain), 0o600)
    return found


class Keeper:
    """Of one home and swarm. `run` for as long as the network lives."""

    def __init__(
        self,
        home: Path,
        swarm: str,
        memory: Callable[[], Memory],
        allow: Callable[[Access], None],
        go_by: Callable[[Sequence[bytes]], None],
        say: Callable[[str, bool], None],
        today: Callable[[], float],
    ) -> None:
        """`memory` is what is to be saved; `allow` and `go_by` take lists and cards that have changed; `say` a line for
        the user, and whether it is a warning. `today`: seconds since 1970, with which cards are compared."""
        self._home, self._swarm = home, swarm
        self._memory, self._allow, self._go_by, self._say, self._today = memory, allow, go_by, say, today
        self._cards, self._cards_seen, self._number = home / CARDS_FILE, (0, 0), 0  # that of the card that counts
        self._lists_seen: tuple[int, int] | None = None  # when they were written, and their size
        self._unsaved = False  # whether the last attempt to save failed

    def renew(self, cards: Sequence[bytes]) -> None:
        """Cards that a peer passed on: kept if they go on from those of this home."""
        found: Card | Refusal | str
        try:
            found = keep_cards(self._cards, (*load_cards(self._cards)[0], *cards), self._today())
        except OSError as error:
            found = error.strerror or "disk"
        if not isinstance(found, Card):
            self._say(f"network: a newer card of a peer is not kept: {found}; the one before goes on", False)
        self._look_at_cards()

    def _look_at_cards(self) -> None:
        """The user may put newer ones there, too."""
        with suppress(OSError):
            status, before = self._cards.stat(), self._cards_seen
            self._cards_seen = status.st_mtime_ns, status.st_size
            chain, card = load_cards(self._cards) if self._cards_seen != before else ((), None)
            if isinstance(card, Card) and swarm_of(card) == self._swarm and card.number > self._number:
                self._number = card.number
                self._go_by(chain)
                self._say(f"network: card {card.number} of {card.name} counts from now on", False)

    def look(self) -> None:
        """At cards and lists, which may change at any time: a restart would lose minutes of training while a flood goes
        on. A list that cannot be read changes nothing, and is complained about once."""
        self._look_at_cards()
        path, before = self._home / ACCESS_FILE, self._lists_seen
        try:
            status = path.stat()
        except OSError:
            self._lists_seen = None
            if before is not None:
                self._allow(Access())
                self._say(f"network: {ACCESS_FILE} is gone: nobody is blocked", False)
            return
        self._lists_seen = status.st_mtime_ns, status.st_size
        if self._lists_seen == before:
            return
        try:
            if status.st_size > MAX_LISTS_BYTES:
                raise ValueError(f"larger than {MAX_LISTS_BYTES} bytes")
            self._allow(parse(path.read_text()))
        except (OSError, ValueError) as error:
            self._say(f"network: {path}: {error}; what it said before goes on", False)
        else:
            self._say(f"network: {ACCESS_FILE} was read", False)

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
