"""What the exchange wants done and remembered. It never acts: its runner makes the calls and
reports how they went.

`Deliver`, `Refuse` and `Cards` go to the trainer as they are: see process/messages.py.
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from protocol import codec, limits
from protocol.messages import PeerId, Reason, Rejected, RolloutGroup

SERVE_ROUNDS = 3  # rounds of this node for which a group stays available
# Found by the trainer, once it has built the digest of a task
OTHER_ENVIRONMENT = Reason.OTHER_ENVIRONMENT
# What the trainer finds in a group that it could score
USEFUL, UNINFORMATIVE = "useful", "uninformative"
MAX_PARTY_CHARS = 64  # a peer id has 52, the network of an address fewer
Sequence = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_SEQUENCE)]
GroupHash = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$")]


@dataclass(frozen=True, slots=True)
class CallPeer:
    """Ask a peer; then `Exchange.replied` or `Exchange.failed` with the same token."""

    token: int
    peer: PeerId
    addresses: tuple[str, ...]  # where to dial it if there is no connection yet
    protocol: str
    request: bytes
    max_reply: int  # bytes
    timeout: float  # seconds, connecting included


class Deliver(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """An admitted group for the trainer: the bytes that its author signed, as they travelled, the
    peer that they were pulled from, and the party in which their author counts.
    """

    payload: bytes
    source: PeerId
    party: Annotated[str, msgspec.Meta(max_length=MAX_PARTY_CHARS)] = ""

    @property
    def content_hash(self) -> bytes:
        """The name of the group."""
        return codec.content_hash(self.payload)

    @property
    def group(self) -> RolloutGroup:
        """The group in these bytes, read anew. ValueError where they hold none."""
        message = codec.decode(self.payload, RolloutGroup)
        if isinstance(message, Rejected):
            raise ValueError(f"no group: {message.reason}")
        return message


class Refuse(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Why this node does not admit a genuine group. The trainer counts these reasons for the
    user.
    """

    reason: Reason


class Cards(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Manifests of a swarm. On the way to the trainer: those of a peer that come after the newest
    one here. On the way from it: the whole chain that the exchange follows from then on.
    """

    cards: tuple[bytes, ...]  # the oldest first
    proof: bytes = b""  # that this node is a member of a private swarm
    today: float = 0.0  # seconds since 1970, with which certificates are compared


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connections to a peer that was banned or that the card puts out."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class StartOver:
    """This node has slept: give up all calls under way, close all connections, which are dead or
    will be, and tell `Exchange.reachable` where this node can be reached now. To be done before all
    other actions.
    """


ForTrainer = Deliver | Refuse | Cards
Action = CallPeer | ForTrainer | Disconnect | StartOver


class Remembered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the exchange must know after a restart: without it old messages would count as new."""

    seq: Sequence = 0  # number of this node's last announcement
    # Author -> its last number, and how many seconds ago that came
    received: dict[PeerId, tuple[Sequence, float]] = {}
    seen: tuple[GroupHash, ...] = ()  # groups handed to the trainer, oldest first
    bans: dict[PeerId, float] = {}  # peer -> seconds that its ban has yet to run
