"""A version of the protocol as a value: what is signed, hashed or served for one counts in no other."""

from collections.abc import Mapping
from dataclasses import dataclass

from protocol import limits
from protocol.messages import Announcement, Message, RolloutGroup


@dataclass(frozen=True, slots=True)
class Version:
    """Handed in to whatever depends on it."""

    number: int
    limits: Mapping[str, int]  # kind -> bytes of the largest message, signature and payload
    kinds: Mapping[str, type[Message]]  # kind, as it is signed -> its messages

    def text(self, *parts: str) -> bytes:
        """How texts begin that are signed or hashed."""
        return f"swarm-node/{self.number}/".encode() + "\0".join(parts).encode()

    def domain(self, kind: str, swarm: str) -> bytes:
        """Prefix of signed bytes. A signature for one kind of message in one swarm is valid nowhere else."""
        return self.text(kind, swarm, "")

    def stream(self, name: str) -> str:
        """The id of a stream protocol."""
        return f"/swarm-node/{self.number}/{name}"

    def kind(self, message: type[Message]) -> str:
        """The kind of such a message. StopIteration if none of this version is signed so."""
        return next(name for name, kind in self.kinds.items() if kind is message)


CURRENT = Version(
    number=2,
    limits={"announcement": limits.MAX_ANNOUNCEMENT_BYTES, "rollout-group": limits.MAX_MESSAGE_BYTES},
    kinds={"announcement": Announcement, "rollout-group": RolloutGroup},
)
