"""A version of the protocol as a value: what is signed, hashed or served for one counts in no other."""

from collections.abc import Mapping
from dataclasses import dataclass

from protocol import limits
from protocol.messages import Announcement, Message, RolloutGroup


@dataclass(frozen=True, slots=True)
class Version:
    """Handed in to whatever depends on it."""

    number: int
    limits: Mapping[type[Message], int]  # bytes of the largest message, signature and payload
    kinds: Mapping[type[Message], str]  # how a message is called where it is signed

    def text(self, *parts: str) -> bytes:
        """How texts begin that are signed or hashed."""
        return f"swarm-node/{self.number}/".encode() + "\0".join(parts).encode()

    def domain(self, kind: str, swarm: str) -> bytes:
        """Prefix of signed bytes. A signature for one kind of message in one swarm is valid nowhere else."""
        return self.text(kind, swarm, "")

    def stream(self, name: str) -> str:
        """The id of a stream protocol."""
        return f"/swarm-node/{self.number}/{name}"


CURRENT = Version(
    number=2,
    limits={Announcement: limits.MAX_ANNOUNCEMENT_BYTES, RolloutGroup: limits.MAX_MESSAGE_BYTES},
    kinds={Announcement: "announcement", RolloutGroup: "rollout-group"},
)
