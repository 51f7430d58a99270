"""Who is in a private swarm: a chain of certificates leads from a key that the swarm's card names
to the member.

A certificate lets the holder of a key in until a given time. The card's key signs the first one,
each holder the next. A code has a key of its own and a chain to it, so a node with the code signs
the last certificate itself while the inviter is offline. Judging never raises, whatever the bytes;
the caller passes the time.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import StrEnum

from protocol.card import DAY, GRACE, MAX_CHAIN, Card, Members, network_id
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
    chain = proof or public_key(issuer.peer_id)
    signed = ends.to_bytes(4) + public_key(holder)
    signature = issuer.sign(_DOMAIN % network.encode(), signed)
    return chain + signed + signature


def judge(proof: bytes, holder: PeerId, card: Card, now: float) -> int | ProofFault:
    """When this peer's membership ends by a private swarm's card, or why not. Both times in seconds
    since 1970.
    """
    size, odd = divmod(len(proof) - PUBLIC_KEY_BYTES, _CERTIFICATE.size)
    if odd or not 1 <= size <= MAX_CHAIN:
        return ProofFault.MALFORMED
    first_key, certificates = proof[:PUBLIC_KEY_BYTES], proof[PUBLIC_KEY_BYTES:]
    ends, keys, _ = zip(*_CERTIFICATE.iter_unpack(certificates), strict=True)
    chain = [peer_id(key) for key in (first_key, *keys)]
    members = card.members or Members(admit=(), chain=0, revoked=())
    faults = _faults(chain, ends, members, holder, now)
    if fault := next(faults, None):
        return fault
    # Last, since it costs most
    domain = _DOMAIN % network_id(card).encode()
    return min(ends) if _are_genuine(certificates, chain, domain) else ProofFault.FORGED


def _faults(
    chain: Sequence[PeerId], ends: Sequence[int], members: Members, holder: PeerId, now: float
) -> Iterator[ProofFault]:
    """What is wrong with the peers of a chain and with the ends of its certificates."""
    if chain[-1] != holder:
        yield ProofFault.NOT_OWN
    if len(ends) > members.chain:
        yield ProofFault.TOO_LONG
    if chain[0] not in members.admit:
        yield ProofFault.UNKNOWN
    if not {*chain}.isdisjoint(members.revoked):
        yield ProofFault.REVOKED
    if max(ends) > now + MAX_LIFE + GRACE:
        yield ProofFault.TOO_LASTING
    if now >= min(ends) + GRACE:
        yield ProofFault.ENDED


def _are_genuine(certificates: bytes, chain: Sequence[PeerId], domain: bytes) -> bool:
    """Whether each certificate is signed by the peer of the chain that stands before its holder."""
    for number, issuer in enumerate(chain[:-1]):
        start = number * _CERTIFICATE.size
        signed = certificates[start : start + 4 + PUBLIC_KEY_BYTES]
        (_, _, signature) = _CERTIFICATE.unpack_from(certificates, start)
        try:
            genuine = verify(issuer, domain, signed, signature)
        except ValueError:  # a key that anybody can sign for
            return False
        if not genuine:
            return False
    return True
