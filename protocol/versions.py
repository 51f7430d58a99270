"""A version of the protocol as a value: what is signed, hashed or served for one version is valid
in no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from protocol import limits
from protocol.messages import Announcement, Message, RolloutGroup


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the protocol. This program speaks one, CURRENT, and refuses all others."""

    number: int
    limits: Mapping[type[Message], int]  # bytes of the largest message, signature and payload
    kinds: Mapping[type[Message], str]  # name of each kind in the signed bytes

    def text(self, *parts: str) -> bytes:
        """The beginning of a signed or hashed text: `swarm-node/NUMBER/`, then the parts with NUL
        between them.
        """
        return f"swarm-node/{self.number}/".encode() + "\0".join(parts).encode()

    def domain(self, kind: str, swarm: str) -> bytes:
        """Prefix of signed bytes. A signature for one kind of message in one swarm is valid nowhere
        else.
        """
        return self.text(kind, swarm, "")

    def stream(self, name: str) -> str:
        """The id of a stream protocol."""
        return f"/swarm-node/{self.number}/{name}"


CURRENT = Version(
    number=2,
    limits={Announcement: limits.MAX_ANNOUNCEMENT_BYTES, RolloutGroup: limits.MAX_MESSAGE_BYTES},
    kinds={Announcement: "announcement", RolloutGroup: "rollout-group"},
)
