"""Announcements to bytes and back, with the same rules as rollout groups: one encoding, one signature, one reason."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from protocol import codec, limits
from protocol.identity import Identity, verify
from protocol.identity import domain as signing_domain
from protocol.messages import Announcement
from protocol.rejection import Reason, Rejected


def seal(announcement: Announcement, identity: Identity, swarm: str) -> bytes:
    """Signature (64 bytes) and payload. At most MAX_ANNOUNCEMENT_BYTES, whatever the announcement holds."""
    payload = codec.encode(announcement)
    return identity.sign(signing_domain("announcement", swarm), payload) + payload


def peek(data: bytes) -> Announcement | Rejected:
    """The announcement in these bytes. Its signature is not checked yet."""
    if len(data) > limits.MAX_ANNOUNCEMENT_BYTES:
        return Rejected(Reason.TOO_BIG)
    return codec.decode(codec.split(data)[1], Announcement)


def objection(data: bytes, announcement: Announcement, swarm: str) -> Reason | None:
    """Checks the signature: None if its author signed `announcement` (what `peek` returned) for this swarm."""
    signature, payload = codec.split(data)
    try:
        genuine = verify(announcement.author, signing_domain("announcement", swarm), payload, signature)
    except ValueError:
        return Reason.BAD_AUTHOR
    return None if genuine else Reason.BAD_SIGNATURE


def to_text(value: bytes) -> str:
    """base64url without padding: how hashes and their first bytes are spelt."""
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def to_bytes(text: str) -> bytes:
    """The inverse of `to_text`; ValueError where it has none."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
