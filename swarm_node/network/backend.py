"""The interface of network libraries: dial peers, and reply to them. Both libp2p libraries
implement it.

A call is a request and a reply on a stream, each framed by four bytes of length, big-endian, and
bounded before anything is allocated; see protocol/README.md.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from protocol.messages import PeerId


class Failure(StrEnum):
    """Why a call or a dial failed. None of these reasons is a mistake in this program."""

    UNREACHABLE = "unreachable"  # no address answered in time
    # The peer answers, but does not speak this protocol or version
    UNSUPPORTED = "protocol not supported"
    TIMEOUT = "timeout"  # connected, and then too slow
    CLOSED = "closed early"  # the stream ended before the reply did
    TOO_BIG = "reply too big"
    # None of its addresses may be dialled now: see transport/gate.py; no fault of the peer
    HELD = "held back"
    REFUSED = "refused"  # an empty reply: over a limit, banned, or another swarm


class CallFailed(Exception):
    """A call or a dial failed; `failure` says why."""

    def __init__(self, failure: Failure, detail: str = "") -> None:
        super().__init__(f"{failure}: {detail}" if detail else str(failure))
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Caller:
    """The peer at the other end of an inbound stream; the encrypted connection proves its id."""

    peer: PeerId
    # Multiaddr it calls from, "" where the backend cannot say; a relayed one names the relay
    address: str


# Request in, reply out; b"" refuses. Must not raise.
Handler = Callable[[Caller, bytes], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Connection:
    """An open connection to a peer."""

    peer: PeerId
    address: str  # multiaddr of the other end
    relayed: bool


class Stream(Protocol):
    """A libp2p stream. However it ends, `read` and `write` then raise EOFError or OSError."""

    async def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        ...

    async def write(self, data: bytes) -> None:
        """Write all of the data; raises where the other end is gone."""
        ...

    async def close(self) -> None:
        """Close the stream. Never raises, never waits long."""
        ...


class Backend(Protocol):
    """One libp2p host on one asyncio loop. Call `start` and `close` once each; in between only
    CallFailed is raised.
    """

    peer_id: PeerId
    counters: Mapping[str, int]  # what the transport did and refused, since the start

    async def start(self, handlers: Mapping[str, Handler], limits: Mapping[str, int]) -> None:
        """Listen. `handlers` and `limits` (largest request, bytes) by protocol id. UserError where
        it cannot start.
        """
        ...

    async def dial(self, addresses: Sequence[str], timeout: float) -> PeerId:
        """Connect to the peer that these full multiaddrs (.../p2p/ID) name, side by side. Returns
        its proven id.
        """
        ...

    async def call(
        self, peer: PeerId, protocol: str, request: bytes, max_reply: int, timeout: float
    ) -> bytes:
        """The reply of a connected or known peer, at most `max_reply` bytes, all within `timeout`
        seconds.
        """
        ...

    async def disconnect(self, peer: PeerId) -> None:
        """Close all connections to this peer."""
        ...

    async def connections(self) -> list[Connection]:
        """The connections open now. Raises CallFailed where the backend has died."""
        ...

    async def addresses(self) -> list[str]:
        """Full multiaddrs by which others may reach this node now: listening, observed, relayed;
        best first.
        """
        ...

    async def start_over(self) -> None:
        """This machine has slept, or was in no network: closes all connections, which are dead or
        will be, and forgets what failed before. Raises CallFailed where the backend has died.
        """
        ...

    async def wait_closed(self) -> str:
        """Waits until the host dies by itself, and returns the reason: the caller then starts
        another one.
        """
        ...

    async def close(self) -> None:
        """Close everything; may be called where `start` failed."""
        ...
