"""Who is in a private swarm: a chain of certificates, from a key that its card names to the member.

A certificate lets in the holder of a key until a time. Its issuer signs it: the key that the card names, then the
holder of the certificate before. A code has a key of its own and a chain to it, so whoever has the code signs the last
certificate itself, while the inviter sleeps. Judging never raises, whatever the bytes; the clock is handed in.
"""

import struct
from enum import StrEnum

from protocol.card import DAY, GRACE, MAX_CHAIN, Card, Members, network_of
from protocol.identity import PUBLIC_KEY_BYTES, Identity, peer_id, public_key, verify
from protocol.messages import PeerId

MAX_LIFE, _DOMAIN = 90 * DAY, b"swarm-node/member\0%b\0"
_CERTIFICATE = struct.Struct(">I32s64s")  # seconds since 1970 when it ends, key of its holder, signature


class Refusal(StrEnum):
    """Why a proof is not taken: a value to count. In the order of the checks."""

    MALFORMED = "no proof of membership"
    NOT_OWN = "the proof of another"
    TOO_LONG = "too many certificates"
    UNKNOWN = "by no key of the card"
    REVOKED = "revoked by the card"
    TOO_LASTING = "lasts too long"
    ENDED = "membership ended"
    FORGED = "forged certificate"


BLAMED = (Refusal.MALFORMED, Refusal.NOT_OWN, Refusal.FORGED)  # others come with clocks and cards that differ


def certify(proof: bytes, issuer: Identity, holder: PeerId, ends: int, network: str) -> bytes:
    """The chain with one certificate more; the first one of a chain where `proof` is empty."""
    signed = ends.to_bytes(4) + public_key(holder)
    return (proof or public_key(issuer.peer_id)) + signed + issuer.sign(_DOMAIN % network.encode(), signed)


def judge(proof: bytes, holder: PeerId, card: Card, now: float) -> int | Refusal:
    """When the membership of this peer ends, by a card of a private swarm. Both times in seconds since 1970."""
    size, odd = divmod(len(proof) - PUBLIC_KEY_BYTES, _CERTIFICATE.size)
    if odd or not 1 <= size <= MAX_CHAIN:
        return Refusal.MALFORMED
    members, data = card.members or Members(admit=(), chain=0, revoked=()), proof[PUBLIC_KEY_BYTES:]
    domain = _DOMAIN % network_of(card).encode()
    ends, keys, signatures = zip(*_CERTIFICATE.iter_unpack(data), strict=True)
    chain = [peer_id(key) for key in (proof[:PUBLIC_KEY_BYTES], *keys)]
    signed = [data[at : at + 4 + PUBLIC_KEY_BYTES] for at in range(0, len(data), _CERTIFICATE.size)]
    checks = (
        (Refusal.NOT_OWN, lambda: chain[-1] != holder),
        (Refusal.TOO_LONG, lambda: size > members.chain),
        (Refusal.UNKNOWN, lambda: chain[0] not in members.admit),
        (Refusal.REVOKED, lambda: not {*chain}.isdisjoint(members.revoked)),
        (Refusal.TOO_LASTING, lambda: max(ends) > now + MAX_LIFE + GRACE),
        (Refusal.ENDED, lambda: now >= min(ends) + GRACE),
        (Refusal.FORGED, lambda: not all(map(_holds, chain, signed, signatures, [domain] * size))),
    )
    return next((reason for reason, objects in checks if objects()), min(ends))


def _holds(issuer: PeerId, signed: bytes, signature: bytes, domain: bytes) -> bool:
    try:
        return verify(issuer, domain, signed, signature)
    except ValueError:  # a key that anybody can sign for
        return False
