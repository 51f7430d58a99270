"""The costly checks, in one place, so that a simulation of thousands can do each once for all of them."""

from protocol import admission, announcing
from protocol.messages import Announcement, RolloutGroup
from protocol.rejection import Reason, Rejected


class Verifier:
    """Pure functions of bytes and swarm name: whoever remembers their results changes nothing but the time taken."""

    def peek(self, sealed: bytes) -> Announcement | Rejected:
        return announcing.peek(sealed)

    def objection(self, sealed: bytes, announcement: Announcement, swarm: str) -> Reason | None:
        return announcing.objection(sealed, announcement, swarm)

    def authenticate(self, envelope: bytes, swarm: str) -> RolloutGroup | Rejected:
        return admission.authenticate(envelope, swarm)
