"""What the exchange wants done. It decides, never acts: its runner does the calls and says how they went.

`Deliver` and `Refuse` go to the trainer as they are: see process/messages.py.
"""

from dataclasses import dataclass

import msgspec

from protocol.messages import PeerId, RolloutGroup
from protocol.rejection import Reason


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


class Deliver(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A group for the trainer, admitted, with the hash that names it, and the peer it was pulled from."""

    group: RolloutGroup
    content_hash: bytes
    source: PeerId


class Refuse(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A genuine group that this node does not admit: the trainer counts it where the user looks."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Hang up on a peer: banned."""

    peer: PeerId


Action = Call | Deliver | Refuse | Disconnect
