"""Messages to bytes and back. One message has exactly one encoding, hence one content hash.

Canonical form is RFC 8785 narrowed to what messages hold: objects, arrays, strings, integers, booleans. No framing and
no compression here: a length prefix belongs to the stream that carries the bytes.
"""

import hashlib
import json
from typing import TypeVar

from pydantic import ValidationError

from protocol import limits
from protocol.identity import Identity
from protocol.identity import domain as signing_domain
from protocol.messages import Message, RolloutGroup
from protocol.rejection import Reason, Rejected

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
        message = kind.model_validate_json(data)  # bounds depth (200) and digits (4300) itself
    except ValidationError:
        return Rejected(Reason.MALFORMED)
    # Catches what a lenient parser lets pass: spaces, key order, duplicate keys, needless escapes.
    return message if _canonical(message) == data else Rejected(Reason.NOT_CANONICAL)


def _canonical(message: Message) -> bytes:
    return _JSON.encode(message.model_dump()).encode()


def content_hash(payload: bytes) -> bytes:
    """The name of a payload, 32 bytes. The signature is not hashed: an author can make many for one payload."""
    return hashlib.sha256(payload).digest()


def rollout_domain(swarm: str) -> bytes:
    """What the signature of a rollout group is bound to."""
    return signing_domain("rollout-group", swarm)


def seal(group: RolloutGroup, identity: Identity, swarm: str) -> bytes:
    """The envelope that travels: signature (64 bytes), payload. ValueError if the group is too big to travel."""
    payload = encode(group)
    return identity.sign(rollout_domain(swarm), payload) + payload


def split(envelope: bytes) -> tuple[bytes, bytes]:
    """Signature and payload. Both may be nonsense, or too short."""
    return envelope[: limits.SIGNATURE_BYTES], envelope[limits.SIGNATURE_BYTES :]
