"""Who is in a private swarm: a chain of certificates leads from a key that the swarm's card names
to the member.

A certificate lets the holder of a key in until a given time. The card's key signs the first one,
each holder the next. A code has a key of its own and a chain to it, so a node with the code signs
the last certificate itself while the inviter is offline. Judging never raises, whatever the bytes;
the caller passes the time.
"""

import struct
from enum import StrEnum

from protocol.card import DAY, GRACE, MAX_CHAIN, Card, Members, network_of
from protocol.identity import PUBLIC_KEY_BYTES, Identity, peer_id, public_key, verify
from protocol.messages import PeerId

MAX_LIFE, _DOMAIN = 90 * DAY, b"swarm-node/member\0%b\0"
# Seconds since 1970 when it ends, key of its holder, signature
_CERTIFICATE = struct.Struct(">I32s64s")


class ProofFault(StrEnum):
    """Why a proof is refused: a value to count, never an exception. In the order of the checks."""

    MALFORMED = "no proof of membership"
    NOT_OWN = "the proof of another"
    TOO_LONG = "too many certificates"
    UNKNOWN = "by no key of the card"
    REVOKED = "revoked by the card"
    TOO_LASTING = "lasts too long"
    ENDED = "membership ended"
    FORGED = "forged certificate"


# The others can come from clocks or cards that differ
BLAMED = (ProofFault.MALFORMED, ProofFault.NOT_OWN, ProofFault.FORGED)


def certify(proof: bytes, issuer: Identity, holder: PeerId, ends: int, network: str) -> bytes:
    """The chain `proof` with one more certificate; an empty `proof` begins a chain. `ends`: seconds
    since 1970.
    """
    signed = ends.to_bytes(4) + public_key(holder)
    return (
        (proof or public_key(issuer.peer_id))
        + signed
        + issuer.sign(_DOMAIN % network.encode(), signed)
    )


def judge(proof: bytes, holder: PeerId, card: Card, now: float) -> int | ProofFault:
    """When this peer's membership ends by a private swarm's card, or why not. Both times in seconds
    since 1970.
    """
    size, odd = divmod(len(proof) - PUBLIC_KEY_BYTES, _CERTIFICATE.size)
    if odd or not 1 <= size <= MAX_CHAIN:
        return ProofFault.MALFORMED
    members, data = card.members or Members(admit=(), chain=0, revoked=()), proof[PUBLIC_KEY_BYTES:]
    domain = _DOMAIN % network_of(card).encode()
    ends, keys, signatures = zip(*_CERTIFICATE.iter_unpack(data), strict=True)
    chain = [peer_id(key) for key in (proof[:PUBLIC_KEY_BYTES], *keys)]
    signed = [data[at : at + 4 + PUBLIC_KEY_BYTES] for at in range(0, len(data), _CERTIFICATE.size)]
    checks = (
        (ProofFault.NOT_OWN, lambda: chain[-1] != holder),
        (ProofFault.TOO_LONG, lambda: size > members.chain),
        (ProofFault.UNKNOWN, lambda: chain[0] not in members.admit),
        (ProofFault.REVOKED, lambda: not {*chain}.isdisjoint(members.revoked)),
        (ProofFault.TOO_LASTING, lambda: max(ends) > now + MAX_LIFE + GRACE),
        (ProofFault.ENDED, lambda: now >= min(ends) + GRACE),
        (
            ProofFault.FORGED,
            lambda: not all(map(_holds, chain, signed, signatures, [domain] * size)),
        ),
    )
    return next((reason for reason, objects in checks if objects()), min(ends))


def _holds(issuer: PeerId, signed: bytes, signature: bytes, domain: bytes) -> bool:
    try:
        return verify(issuer, domain, signed, signature)
    except ValueError:  # a key that anybody can sign for
        return False
