"""What the network keeps in the home: known peers (peers.json), the exchange's memory, the user's
lists and the cards.

A node that trains keeps these outside its network process, which talks to strangers and has no
access to the home. What is remembered is a convenience: a file that is missing, broken or of
another swarm is left alone, and a full disk costs only what would have been remembered.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from protocol.card import (
    DAY,
    MAX_BYTES,
    MAX_CARDS,
    Card,
    Refusal,
    follow,
    network_id,
    swarm_of,
    told,
)
from protocol.messages import PeerId
from swarm_node.common.errors import reason_of
from swarm_node.common.files import read_plain, write_bytes, write_json
from swarm_node.common.parsing import parse_typed, read_whole
from swarm_node.network.access import Access, parse
from swarm_node.network.actions import Cards, Remembered
from swarm_node.network.process.messages import MAX_PEERS, Memory
from swarm_node.network.transport import multiaddr

# Own full multiaddrs, one a line, for scripts that want to dial this node
ADDRESSES_FILE = "addresses"
# The user's lists: no command writes them, so that scripts can write and users copy them
ACCESS_FILE = "access.toml"
PEERS_FILE = "peers.json"
EXCHANGE_FILE = "exchange.json"
CARDS_FILE = "swarm.manifest"  # one a line, the oldest first
EARLIER_CARDS_FILE = "swarm.card"  # as homes of 0.1 have it
PROOF_FILE = "member.proof"  # proves that this node is a member of a private swarm
MAX_LISTS_BYTES = 8 * 1024 * 1024  # the lists go to the network process in one frame
MAX_FILE_BYTES = 4 * 1024 * 1024  # of peers.json and of exchange.json
MAX_ADDRESSES = 4  # of one peer
SAVE_SECONDS = 30.0
LISTS_SECONDS = 2.0  # between two looks for changes of the user's lists


class _Peer(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=128)]
    addresses: Annotated[list[str], Meta(max_length=MAX_ADDRESSES)]


class _Peers(msgspec.Struct, forbid_unknown_fields=True):
    swarm: str
    port: Annotated[int, Meta(ge=0, le=65535)]
    peers: Annotated[list[_Peer], Meta(max_length=MAX_PEERS)]
    # Of older homes. Not read: a home, which may be a stranger's, lets nobody be dialled
    private: list[str] = []


class _Exchange(msgspec.Struct):
    swarm: str
    state: Remembered


def load_memory(home: Path, swarm: str) -> Memory:
    """What this home remembers of this swarm; of another swarm only the port. A file of no use
    counts as empty.
    """
    known, kept = _Peers(swarm=swarm, port=0, peers=[]), _Exchange(swarm, Remembered())
    with suppress(OSError, ValueError):
        known = parse_typed(read_whole(home / PEERS_FILE, MAX_FILE_BYTES), _Peers)
    if known.swarm != swarm:
        return Memory(port=known.port)
    with suppress(OSError, ValueError):
        kept = parse_typed(read_whole(home / EXCHANGE_FILE, MAX_FILE_BYTES), _Exchange)
    found = {
        each.id: tuple(address for address in each.addresses if _names(address, each.id))
        for each in known.peers
    }
    peers = {PeerId(peer): addresses for peer, addresses in found.items() if addresses}
    state = kept.state if kept.swarm == swarm else Remembered()
    return Memory(known.port, state, peers)


def save_memory(home: Path, swarm: str, memory: Memory) -> None:
    """Writes each of the two files whole or not at all. Raises OSError."""
    peers = [
        {"id": peer, "addresses": addresses[:MAX_ADDRESSES]}
        for peer, addresses in memory.peers.items()
    ]
    known = {
        "swarm": swarm,
        "port": memory.port,
        "peers": peers[:MAX_PEERS],
    }
    write_json(home / PEERS_FILE, known)
    write_bytes(home / EXCHANGE_FILE, msgspec.json.encode(_Exchange(swarm, memory.exchange)))


def _names(address: str, peer: str) -> bool:
    """Whether the address can be dialled and names that very peer."""
    try:
        return multiaddr.split_peer(address)[1] == peer
    except ValueError:
        return False


def cards_file(home: Path) -> Path:
    """The file with the cards of a home. In a home of an earlier version it keeps its name, so that
    the node still follows its swarm, also after a return to that version.
    """
    present, earlier = home / CARDS_FILE, home / EARLIER_CARDS_FILE
    return earlier if os.path.lexists(earlier) and not os.path.lexists(present) else present


def load_cards(file: Path) -> tuple[tuple[bytes, ...], Card | Refusal | None]:
    """The chain in a file, and its newest card, perhaps expired, or why the chain does not hold.
    None: no file.
    """
    try:
        lines = read_plain(file, MAX_CARDS * (MAX_BYTES + 1))
    except OSError as error:
        return (), None if isinstance(
            error, FileNotFoundError | NotADirectoryError
        ) else Refusal.MALFORMED
    chain = tuple(lines.removesuffix(b"\n").split(b"\n"))
    return chain, follow(chain, "", None)


def load_proof(home: Path) -> bytes:
    """The proof in the home, not checked; empty where there is none."""
    with suppress(OSError):
        return read_plain(home / PROOF_FILE, MAX_BYTES, follow=False)
    return b""


def keep_cards(file: Path, chain: Sequence[bytes], now: float, network: str = "") -> Card | Refusal:
    """Writes the chain to the file, if it holds, is in force and follows the one there. `now`:
    seconds since 1970.
    """
    _, kept = load_cards(file)
    if isinstance(kept, Refusal):
        return kept
    found = follow(chain, network or (network_id(kept) if kept else ""), int(now), kept)
    if isinstance(found, Card) and found != kept:
        write_bytes(file, b"".join(card + b"\n" for card in chain), 0o600)
    return found


class Keeper:
    """Keeps the files of one home and swarm. `run` goes on for as long as the network lives."""

    def __init__(
        self,
        home: Path,
        swarm: str,
        memory: Callable[[], Memory],
        allow: Callable[[Access], None],
        go_by: Callable[[Cards], None],
        say: Callable[[str, bool], None],
        today: Callable[[], float],
    ) -> None:
        """`memory` returns what to save; `allow` and `go_by` take lists and cards that have
        changed; `say` takes a line for the user, and whether it is a warning. `today`: seconds
        since 1970, with which cards are compared.
        """
        self._home, self._swarm = home, swarm
        self._memory, self._allow, self._go_by, self._say, self._today = (
            memory,
            allow,
            go_by,
            say,
            today,
        )
        self._seen: tuple[float, ...] = ()
        self._number = 0  # of the card that counts
        self._lists_seen: tuple[int, int] | None = None  # when they were written, and their size
        self._unsaved = False  # whether the last attempt to save failed

    def renew(self, cards: Sequence[bytes]) -> None:
        """Cards that a peer passed on: kept if they go on from those of this home."""
        found: Card | Refusal | str
        try:
            file = cards_file(self._home)
            found = keep_cards(file, (*load_cards(file)[0], *cards), self._today())
        except OSError as error:
            found = error.strerror or "disk"
        if not isinstance(found, Card):
            self._say(
                f"network: a newer manifest of a peer was not kept ({told(found)}); this node "
                "continues with the one before",
                False,
            )
        self._look_at_cards()

    def _look_at_cards(self) -> None:
        """Takes up cards and a proof that the user put there. Hands them on anew each day, as
        clocks drift apart.
        """
        with suppress(OSError):
            proof, today, before = load_proof(self._home), self._today(), self._seen
            status = (file := cards_file(self._home)).stat()
            self._seen = status.st_mtime_ns, status.st_size, hash(proof), today // DAY
            chain, card = load_cards(file) if self._seen != before else ((), None)
            if (
                not isinstance(card, Card)
                or swarm_of(card) != self._swarm
                or card.number < self._number
            ):
                return
            self._go_by(Cards(chain, proof, today))
            if card.number > self._number:
                self._number = card.number
                self._say(
                    f"network: manifest {card.number} of {card.name} is in force from now on", False
                )

    def look(self) -> None:
        """Takes up changes of cards and lists: a restart for them would lose minutes of training
        while a flood goes on. A list that cannot be read changes nothing, and the user is told
        once.
        """
        self._look_at_cards()
        path, before = self._home / ACCESS_FILE, self._lists_seen
        try:
            status = path.stat()
        except OSError:
            self._lists_seen = None
            if before is not None:
                self._allow(Access())
                self._say(f"network: {ACCESS_FILE} was removed: nobody is blocked", False)
            return
        self._lists_seen = status.st_mtime_ns, status.st_size
        if self._lists_seen == before:
            return
        try:
            if status.st_size > MAX_LISTS_BYTES:
                raise ValueError(f"larger than {MAX_LISTS_BYTES} bytes")
            self._allow(parse(read_plain(path, MAX_LISTS_BYTES).decode()))
        except (OSError, ValueError) as error:
            self._say(f"network: {path}: {error}; what it said before still counts", False)
        else:
            self._say(f"network: {ACCESS_FILE} was read", False)

    def addresses(self, addresses: Sequence[str]) -> None:
        """Writes this node's addresses to a file, if it can: they are a convenience."""
        with suppress(OSError):
            write_bytes(
                self._home / ADDRESSES_FILE,
                "".join(f"{address}\n" for address in addresses).encode(),
            )

    async def run(self) -> None:
        """Looks and saves until it is cancelled; then saves a last time."""
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
                self._say(
                    (
                        f"network: peers cannot be saved in {self._home}: {reason_of(error)}; "
                        "make room there"
                    ),
                    True,
                )
            self._unsaved = True
