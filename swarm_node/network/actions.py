"""What the exchange wants done. It decides, never acts: whoever drives it does the calls and says how they went."""

from dataclasses import dataclass

from protocol.messages import PeerId


@dataclass(frozen=True, slots=True)
class Call:
    """Ask a peer; then `Exchange.replied` or `Exchange.failed` with the same token."""

    token: int
    peer: PeerId
    addresses: tuple[str, ...]  # where to dial it if there is no connection yet
    protocol: str
    request: bytes
    max_reply: int  # bytes
    timeout: float  # seconds, connecting included


@dataclass(frozen=True, slots=True)
class Deliver:
    """A group for the trainer: sealed bytes whose hash and signature are right, and the peer it was pulled from."""

    envelope: bytes
    source: PeerId


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Hang up on a peer: banned."""

    peer: PeerId


Action = Call | Deliver | Disconnect
