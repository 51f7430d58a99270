"""The stream protocols. Each has a request and a reply, as bytes. See README.md for the layouts.

Parsing never raises, whatever the bytes, and allocates no more than a small multiple of them. An
empty reply refuses.
"""

import hashlib
import ipaddress
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, starmap

from protocol import codec, limits
from protocol.identity import public_key
from protocol.messages import Hello, PeerId, Reason, Rejected
from protocol.versions import CURRENT

EXCHANGE = CURRENT.stream("exchange")
PULL = CURRENT.stream("pull")
CARD = CURRENT.stream("card")
ENTER = CURRENT.stream("enter")  # request and reply are a proof: see member.py
PUNCH = CURRENT.stream("punch")  # between transports; the exchange never sees it
HELLO = "/swarm-node/hello"  # without a version, since it tells the versions

NAMES: Mapping[str, str] = {
    EXCHANGE: "exchange",
    PULL: "pull",
    HELLO: "hello",
    CARD: "card",
    ENTER: "enter",
}

REQUEST_LIMITS: Mapping[str, int] = {  # of the exchange: protocol id -> largest request, bytes
    EXCHANGE: limits.MAX_EXCHANGE_REQUEST_BYTES,
    PULL: limits.MAX_PULL_REQUEST_BYTES,
    HELLO: limits.MAX_HELLO_BYTES,
    CARD: limits.MAX_CARD_REQUEST_BYTES,
    ENTER: limits.MAX_PROOF_BYTES,
}

_DIGEST_ENTRY = struct.Struct(f">{limits.KEY_TAG_BYTES}sI")
_ITEM_HEADER = struct.Struct(">HH")
_LENGTH = struct.Struct(">I")
_PORT = struct.Struct(">H")
_CARD_REQUEST = struct.Struct(">26sI")
_CARD_LENGTH = struct.Struct(">H")


IP = ipaddress.IPv4Address | ipaddress.IPv6Address


def swarm_tag(swarm: str) -> bytes:
    """Eight bytes that tell swarms apart before anything is parsed."""
    return hashlib.sha256(CURRENT.text("swarm", swarm)).digest()[: limits.SWARM_TAG_BYTES]


def key_tag(peer: PeerId) -> bytes:
    """Eight bytes that name a peer in a digest. ValueError if `peer` is not a peer id."""
    return public_key(peer)[-limits.KEY_TAG_BYTES :]


@dataclass(frozen=True, slots=True)
class ExchangeRequest:
    """What a caller sends when it asks for announcements."""

    tag: bytes  # swarm_tag
    limit: int  # announcements wanted at most
    digest: Mapping[bytes, int]  # key tag -> newest sequence number the caller knows
    announcement: bytes  # sealed, the caller's own; empty if this peer has it already


@dataclass(frozen=True, slots=True)
class CarriedAnnouncement:
    """A sealed announcement and its age, summed over the clocks of those who carried it."""

    age: int  # tenths of a second
    sealed: bytes


def encode_exchange(request: ExchangeRequest) -> bytes:
    """Bytes of the request. The caller keeps to the limits."""
    counts = bytes([request.limit, len(request.digest)])
    digest = b"".join(starmap(_DIGEST_ENTRY.pack, request.digest.items()))
    return request.tag + counts + digest + request.announcement


def decode_exchange(data: bytes) -> ExchangeRequest | Rejected:
    """The request, or why its bytes are refused."""
    if len(data) > limits.MAX_EXCHANGE_REQUEST_BYTES:
        return Rejected(Reason.TOO_BIG)
    start = limits.SWARM_TAG_BYTES + 2
    if len(data) < start:
        return Rejected(Reason.MALFORMED)
    limit, count = data[start - 2], data[start - 1]
    end = start + count * _DIGEST_ENTRY.size
    announcement = data[end:]
    wrong = count > limits.MAX_DIGEST or limit > limits.MAX_EXCHANGED or len(data) < end
    if wrong or len(announcement) > limits.MAX_ANNOUNCEMENT_BYTES:
        return Rejected(Reason.MALFORMED)
    digest = dict(_DIGEST_ENTRY.iter_unpack(data[start:end]))
    return ExchangeRequest(data[: limits.SWARM_TAG_BYTES], limit, digest, announcement)


def encode_items(items: Sequence[CarriedAnnouncement]) -> bytes:
    """The reply to an exchange. Never empty: an empty reply is a refusal."""
    parts = [bytes([len(items)])]
    for item in items:
        parts += [_ITEM_HEADER.pack(item.age, len(item.sealed)), item.sealed]
    return b"".join(parts)


def decode_items(data: bytes) -> list[CarriedAnnouncement] | Rejected:
    """The announcements of a reply with their ages, or why its bytes are refused."""
    if len(data) > limits.MAX_EXCHANGE_REPLY_BYTES:
        return Rejected(Reason.TOO_BIG)
    if not data or data[0] > limits.MAX_EXCHANGED:
        return Rejected(Reason.MALFORMED)
    parts = _parts(data, 1, data[0], _ITEM_HEADER, limits.MAX_ANNOUNCEMENT_BYTES)
    if isinstance(parts, Rejected):
        return parts
    return [CarriedAnnouncement(age, sealed) for (age, _), sealed in parts]


def encode_pull(tag: bytes, hashes: Sequence[bytes]) -> bytes:
    """A request for the groups with these content hashes."""
    return tag + b"".join(hashes)


def decode_pull(data: bytes) -> tuple[bytes, list[bytes]] | Rejected:
    """Swarm tag and content hashes."""
    tag, hashes = data[: limits.SWARM_TAG_BYTES], data[limits.SWARM_TAG_BYTES :]
    count, odd = divmod(len(hashes), limits.HASH_BYTES)
    if odd or not 1 <= count <= limits.MAX_PULLED:
        return Rejected(Reason.MALFORMED)
    starts = range(0, len(hashes), limits.HASH_BYTES)
    return tag, [hashes[start : start + limits.HASH_BYTES] for start in starts]


def encode_groups(envelopes: Sequence[bytes]) -> bytes:
    """The reply to a pull: an envelope for each requested hash, in that order, empty if it is not
    held.
    """
    return b"".join(_LENGTH.pack(len(envelope)) + envelope for envelope in envelopes)


def decode_groups(data: bytes, count: int) -> list[bytes] | Rejected:
    """The `count` envelopes of a reply. The envelopes are not checked yet."""
    if len(data) > limits.MAX_PULL_REPLY_BYTES:
        return Rejected(Reason.TOO_BIG)
    parts = _parts(data, 0, count, _LENGTH, limits.MAX_MESSAGE_BYTES)
    if isinstance(parts, Rejected):
        return parts
    return [envelope for _, envelope in parts]


def _parts(
    data: bytes, position: int, count: int, header: struct.Struct, most: int
) -> list[tuple[tuple[int, ...], bytes]] | Rejected:
    """`count` headers from `position` to the end, each with the bytes behind it. Its last number is
    their length.
    """
    parts = []
    for _ in range(count):
        if len(data) < position + header.size:
            return Rejected(Reason.MALFORMED)
        numbers = header.unpack_from(data, position)
        position += header.size + numbers[-1]
        if numbers[-1] > most:
            return Rejected(Reason.MALFORMED)
        parts.append((numbers, data[position - numbers[-1] : position]))
    return parts if position == len(data) else Rejected(Reason.MALFORMED)


def encode_hello(swarm: str) -> bytes:
    """The bytes of a request, and of a reply."""
    return codec.encode(Hello(swarm=swarm, versions=(CURRENT.number,)))


def decode_hello(data: bytes) -> Hello | Rejected:
    """The message, or why its bytes are refused."""
    if len(data) > limits.MAX_HELLO_BYTES:
        return Rejected(Reason.TOO_BIG)
    return codec.decode(data, Hello)


def encode_card_request(network: str, number: int) -> bytes:
    """A request for the cards of this network with numbers above `number`."""
    return _CARD_REQUEST.pack(network.encode(), number)


def decode_card_request(data: bytes) -> tuple[str, int] | Rejected:
    """The network id, checked only for length and ASCII, and the number."""
    if len(data) != _CARD_REQUEST.size:
        return Rejected(Reason.MALFORMED)
    network, number = _CARD_REQUEST.unpack(data)
    return (network.decode("ascii"), number) if network.isascii() else Rejected(Reason.MALFORMED)


def encode_cards(cards: Sequence[bytes]) -> bytes:
    """The reply: as many of these cards as fit, the oldest first. Never empty: an empty reply is a
    refusal.
    """
    most_cards = limits.MAX_CARD_REPLY_BYTES // 512
    parts = [_CARD_LENGTH.pack(len(card)) + card for card in cards[:most_cards]]
    fitting = sum(end < limits.MAX_CARD_REPLY_BYTES for end in accumulate(map(len, parts)))
    return bytes([fitting]) + b"".join(parts[:fitting])


def decode_cards(data: bytes) -> list[bytes] | Rejected:
    """The cards of a reply. The cards are not checked yet."""
    if len(data) > limits.MAX_CARD_REPLY_BYTES:
        return Rejected(Reason.TOO_BIG)
    if not data:
        return Rejected(Reason.MALFORMED)
    parts = _parts(data, 1, data[0], _CARD_LENGTH, limits.MAX_CARD_BYTES)
    if isinstance(parts, Rejected):
        return parts
    return [card for _, card in parts]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A UDP port with QUIC, as another peer observed it."""

    ip: IP
    port: int


def encode_punch(endpoints: Sequence[Endpoint]) -> bytes:
    """The bytes of a request, and of a reply. Never empty: an empty reply is a refusal."""
    parts = [bytes([len(endpoints)])]
    for endpoint in endpoints:
        ip = endpoint.ip
        parts += [bytes([ip.version]), ip.packed, _PORT.pack(endpoint.port)]
    return b"".join(parts)


def decode_punch(data: bytes) -> list[Endpoint] | Rejected:
    """The endpoints of a message. Whether this node may send to them is not checked yet
    (transport/punching.py).
    """
    if len(data) > limits.MAX_PUNCH_BYTES:
        return Rejected(Reason.TOO_BIG)
    if not data:
        return Rejected(Reason.MALFORMED)
    endpoints, rest = [], data[1:]
    for _ in range(data[0]):
        ip_version = rest[0] if rest else 0
        ip_end = 1 + {4: 4, 6: 16}.get(ip_version, 0)
        end = ip_end + _PORT.size
        if ip_end == 1 or len(rest) < end:
            return Rejected(Reason.MALFORMED)
        (port,) = _PORT.unpack(rest[ip_end:end])
        endpoints.append(Endpoint(ipaddress.ip_address(rest[1:ip_end]), port))
        rest = rest[end:]
    families = {endpoint.ip.version for endpoint in endpoints}
    return Rejected(Reason.MALFORMED) if rest or len(families) < len(endpoints) else endpoints
