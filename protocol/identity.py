"""Who a peer is: an Ed25519 key pair, the peer id spelled from its public half, sign and verify.

Keys are bytes here; swarm_node/home/folder.py keeps them in files. Key bytes and peer ids have
the formats of libp2p, so one key is one peer, whatever library carries its messages.
"""

from functools import lru_cache
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from protocol import limits
from protocol.messages import PeerId

SEED_BYTES = 32
PUBLIC_KEY_BYTES = 32
# Protobuf PrivateKey: type 1 is Ed25519, 64 bytes of data follow
KEY_HEADER = bytes.fromhex("08011240")
# Identity multihash of 36 bytes: protobuf PublicKey, type 1, 32 bytes follow
ID_HEADER = bytes.fromhex("002408011220")
KEY_BYTES = len(KEY_HEADER) + SEED_BYTES + PUBLIC_KEY_BYTES

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DIGITS = {char: digit for digit, char in enumerate(_ALPHABET)}

_PUBLIC_KEY_MASK = (1 << 8 * PUBLIC_KEY_BYTES) - 1

_P = 2**255 - 19  # the field of Ed25519
_D: int = -121665 * pow(121666, -1, _P) % _P  # the curve is -x^2 + y^2 = 1 + d x^2 y^2


class Identity:
    """A key pair. Shows its peer id and never its secret."""

    __slots__ = ("_key", "peer_id")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.peer_id = peer_id(key.public_key().public_bytes_raw())

    @classmethod
    def create(cls) -> Self:
        """A new identity from the system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed_bytes(cls, seed: bytes) -> Self:
        """The identity of a 32-byte seed: for simulations, where the same seed must give the same
        swarm.
        """
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def from_key_bytes(cls, data: bytes) -> Self:
        """The inverse of `key_bytes`. ValueError for anything else, also for halves that do not
        belong together.
        """
        # ValueError unless 32 bytes
        identity = cls.from_seed_bytes(data[len(KEY_HEADER) : -PUBLIC_KEY_BYTES])
        if identity.key_bytes() != data:
            raise ValueError(
                "not an Ed25519 private key in libp2p form, or its halves do not belong together"
            )
        return identity

    def key_bytes(self) -> bytes:
        """The secret, 68 bytes: header, seed, public key."""
        return (
            KEY_HEADER + self._key.private_bytes_raw() + self._key.public_key().public_bytes_raw()
        )

    def sign(self, domain: bytes, message: bytes) -> bytes:
        """64 bytes over domain and message. The domain binds the signature to a kind of message and
        a swarm.
        """
        return self._key.sign(domain + message)

    def __repr__(self) -> str:
        return f"Identity({self.peer_id})"


def verify(author: PeerId, domain: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `author` signed this message for this domain. ValueError if `author` is not a peer
    id.
    """
    key = Ed25519PublicKey.from_public_bytes(public_key(author))
    try:
        key.verify(signature, domain + message)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=1024)  # every call names its peer again
def peer_id(public: bytes) -> PeerId:
    """The name of the holder of a public key (32 bytes): "12D3KooW..."."""
    if len(public) != PUBLIC_KEY_BYTES:
        raise ValueError(f"public key of {len(public)} bytes, not {PUBLIC_KEY_BYTES}")
    number, text = int.from_bytes(ID_HEADER + public, "big"), ""
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        text = _ALPHABET[digit] + text
    return PeerId("1" + text)  # base58btc spells the one leading zero byte as "1"


@lru_cache(maxsize=1024)  # the same authors recur; a miss costs 10 us
def public_key(peer: PeerId) -> bytes:
    """The 32 bytes that a peer id spells. ValueError unless `peer_id` returns the same text, and
    for a weak key.
    """
    if len(peer) != limits.PEER_ID_CHARS:
        raise ValueError(f"peer id of {len(peer)} characters, not {limits.PEER_ID_CHARS}")
    number = 0
    for char in peer:
        if char not in _DIGITS:
            raise ValueError("peer id is not base58")
        number = number * len(_ALPHABET) + _DIGITS[char]
    public = (number & _PUBLIC_KEY_MASK).to_bytes(PUBLIC_KEY_BYTES, "big")
    if peer_id(public) != peer:
        raise ValueError("peer id does not name an Ed25519 key")
    if _is_weak(public):
        raise ValueError("peer id names a key that anybody can sign for")
    return public


def _is_weak(public: bytes) -> bool:
    """Whether the point has a second spelling, or small order: OpenSSL then accepts signatures made
    without a key.

    With y the coordinate: order 1 and 2 are y = 1 and -1, order 4 is y = 0; a point of order 8
    doubles to y = 0, which means y^2 = -x^2, put into the curve d y^4 + 2 y^2 - 1 = 0.
    """
    y = int.from_bytes(public, "little") % 2**255  # the top bit is the sign of x
    is_of_order_8 = (_D * pow(y, 4, _P) + 2 * y * y - 1) % _P == 0
    return y >= _P or y in (0, 1, _P - 1) or is_of_order_8
