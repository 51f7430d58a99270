"""Messages to bytes and back. One message has exactly one encoding, hence one content hash, and one
signature.

Canonical form is RFC 8785 narrowed to what messages hold: objects, arrays, strings, integers,
booleans. No framing and no compression here: a length prefix belongs to the stream that carries the
bytes.
"""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import TypeVar

from pydantic import ValidationError

from protocol import limits
from protocol.identity import Identity, verify
from protocol.messages import Announcement, Message, Reason, Rejected, RolloutGroup
from protocol.versions import CURRENT

M = TypeVar("M", bound=Message)

_MAX_PAYLOAD_BYTES = limits.MAX_MESSAGE_BYTES - limits.SIGNATURE_BYTES
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def encode(message: Message) -> bytes:
    """Canonical bytes. ValueError if they do not fit into a message."""
    data = _canonical(message)
    if len(data) > _MAX_PAYLOAD_BYTES:
        raise ValueError(f"message of {len(data)} bytes, at most {_MAX_PAYLOAD_BYTES} fit")
    return data


def decode(data: bytes, kind: type[M]) -> M | Rejected:
    """The message in these bytes, or why they are refused."""
    if len(data) > _MAX_PAYLOAD_BYTES:
        return Rejected(Reason.TOO_BIG)
    try:
        message = kind.model_validate_json(data)  # pydantic bounds depth (200) and digits (4300)
    except ValidationError:
        return Rejected(Reason.MALFORMED)
    # Catches what a lenient parser lets pass: spaces, key order, duplicate keys, needless escapes.
    return message if _canonical(message) == data else Rejected(Reason.NOT_CANONICAL)


def _canonical(message: Message) -> bytes:
    return _JSON.encode(message.model_dump(exclude_none=True)).encode()


def content_hash(payload: bytes) -> bytes:
    """The name of a payload, 32 bytes. The signature is not hashed: an author can make many for one
    payload.
    """
    return hashlib.sha256(payload).digest()


def environment_digest(behaviour: Sequence[Sequence[str]], salt: str = "") -> str:
    """Tells environments of one name and version apart. `behaviour`, for questions 0 to 3 of
    `addressing.FINGERPRINT`: the prompt and the scores of the empty text and of "0", with six
    decimals. With several turns, score and trace after each turn of a probe replace both scores. A
    question that is not available or scored has an empty entry.
    """
    return _fingerprint(CURRENT.text("environment", salt, _spelt(behaviour)))


def trace(opening: str, observations: Sequence[Sequence[str]], done: bool) -> str:
    """Tells episodes that went differently apart: a digest of the environment's opening, its
    replies after each turn, and whether it then ended the episode.
    """
    return _fingerprint(CURRENT.text("transcript", _spelt([opening, observations, done])))


def _spelt(value: object) -> str:
    # A plug-in may reply with lone surrogates
    return _JSON.encode(value).encode("utf-8", "backslashreplace").decode()


def _fingerprint(text: bytes) -> str:
    return to_text(hashlib.sha256(text).digest()[: limits.HOLDING_BYTES])


def seal(message: RolloutGroup | Announcement, identity: Identity, swarm: str) -> bytes:
    """The envelope that travels: signature (64 bytes), payload. ValueError if the message is too
    big to travel.
    """
    payload = encode(message)
    signature = identity.sign(_signing_domain(message, swarm), payload)
    return signature + payload


def _signing_domain(message: RolloutGroup | Announcement, swarm: str) -> bytes:
    """What is signed before the payload, so that a signature serves one kind of message in one
    swarm.
    """
    return CURRENT.domain(CURRENT.kinds[type(message)], swarm)


def split(envelope: bytes) -> tuple[bytes, bytes]:
    """Signature and payload. Both may be nonsense, or too short."""
    return envelope[: limits.SIGNATURE_BYTES], envelope[limits.SIGNATURE_BYTES :]


def peek(data: bytes, kind: type[M]) -> M | Rejected:
    """The message in an envelope. Its signature is not checked yet."""
    if len(data) > CURRENT.limits[kind]:
        return Rejected(Reason.TOO_BIG)
    return decode(split(data)[1], kind)


def objection(data: bytes, message: RolloutGroup | Announcement, swarm: str) -> Reason | None:
    """Checks the signature: None if its author signed `message` (what `peek` returned) for this
    swarm.
    """
    signature, payload = split(data)
    try:
        genuine = verify(message.author, _signing_domain(message, swarm), payload, signature)
    except ValueError:
        return Reason.BAD_AUTHOR
    return None if genuine else Reason.BAD_SIGNATURE


def to_text(value: bytes) -> str:
    """base64url without padding: how hashes and their first bytes are spelt."""
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def to_bytes(text: str) -> bytes:
    """The inverse of `to_text`. ValueError for text that cannot be decoded."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
