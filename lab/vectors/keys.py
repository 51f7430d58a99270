"""Peer ids, key files, names of swarms and signatures. Ed25519 is written out here, so that signatures can be made that
no library makes: the curve is -x^2 + y^2 = 1 + d x^2 y^2 over the integers modulo P (RFC 8032)."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lab.vectors.forms import LIMITS, SWARM, VERSION, Group

P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
ID_HEADER, KEY_HEADER = bytes.fromhex("002408011220"), bytes.fromhex("08011240")

Point = tuple[int, int]


def plus(a: Point, b: Point) -> Point:
    product = D * a[0] * a[1] * b[0] * b[1]
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + product, -1, P)
    return x % P, (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P) % P


def times(number: int, point: Point) -> Point:
    found = (0, 1)
    for bit in bin(number)[2:]:
        found = plus(found, found)
        found = plus(found, point) if bit == "1" else found
    return found


def spelled(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def with_y(y: int) -> Point:
    """The point with this y and an even x."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    assert x * x % P == square
    return (P - x if x & 1 else x), y


BASE = with_y(4 * pow(5, -1, P) % P)
ORDER_8 = with_y(int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"))


def base58(data: bytes) -> str:
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABET[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def peer_id(public: bytes) -> str:
    return base58(ID_HEADER + public)


@dataclass(frozen=True)
class Key:
    """A key pair of 32 seed bytes; `extra` is added to the public point."""

    seed: bytes
    extra: Point = (0, 1)

    @cached_property
    def scalar(self) -> int:
        return int.from_bytes(hashlib.sha512(self.seed).digest()[:32], "little") & (2**254 - 8) | 2**254

    @cached_property
    def public(self) -> bytes:
        return spelled(plus(times(self.scalar, BASE), self.extra))

    @cached_property
    def peer(self) -> str:
        return peer_id(self.public)

    def sign(self, message: bytes, extra: Point = (0, 1), secret: int | None = None, spelling: bytes = b"") -> bytes:
        """RFC 8032's signature; or with a point added to R, another logarithm of R, or another spelling of R."""
        if (extra, secret, self.extra) == ((0, 1), None, (0, 1)):
            return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)
        prefix = hashlib.sha512(self.seed).digest()[32:]
        r = _number(prefix, message) if secret is None else secret
        first = spelling or spelled(plus(times(r, BASE), extra))
        s = (r + _number(first, self.public, message) * self.scalar) % ORDER
        return first + s.to_bytes(32, "little")


def _number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


ANN, BOB, EVE = (Key(letter * 32) for letter in (b"a", b"b", b"e"))


def domain(kind: str, swarm: str = SWARM, version: int = VERSION) -> bytes:
    return f"swarm-node/{version}/{kind}\0{swarm}\0".encode()


def sealed(payload: bytes, kind: str, key: Key = ANN, swarm: str = SWARM) -> bytes:
    return key.sign(domain(kind, swarm) + payload) + payload


def weak_keys() -> Iterator[tuple[str, bytes]]:
    for power in range(8):
        for sign in (0, 1):
            x, y = times(power, ORDER_8)
            if x & 1 == 0:  # the other one is found with the sign
                yield f"y of order 8 times {power}, sign {sign}", (y | sign << 255).to_bytes(32, "little")
    for y in range(P, 2**255):
        yield f"y = P + {y - P}, a second spelling", y.to_bytes(32, "little")
    for y in (P, P + 1, P + 3, P + 18):
        yield f"y = P + {y - P}, sign 1", (y | 1 << 255).to_bytes(32, "little")


def peer_ids() -> list[Group]:
    text, public, length = Group("peer-id"), Group("public-key"), LIMITS["PEER_ID_CHARS"]
    good = ANN.peer
    for key in (Key(bytes(range(32))), ANN, BOB, EVE, Key(bytes(32)), Key(b"\xff" * 32)):
        text.valid("an id", key.peer.encode(), key.public.hex())
        public.valid("a key", key.public, key.peer)
    for name, key_bytes in (("of zeros but one", bytes(31) + b"\x40"), ("off the curve", (2).to_bytes(32, "little"))):
        text.valid(f"a key {name}", peer_id(key_bytes).encode(), key_bytes.hex(), "OffCurve")
    for count in (0, 31, 33, 64):
        public.invalid(f"a key of {count} bytes", bytes(count), "malformed")
    for name, bad in (
        ("empty", ""), ("one character less", good[:-1]), ("one more", good + "1"), ("two leading ones", "1" + good),
        ("a leading one less", good[1:]), ("all ones", "1" * length), ("the largest number", "1" + "z" * (length - 1)),
        ("a larger first digit", "2" + good[1:]), ("a space in front", " " + good[1:]), ("a line end", good[:-1] + "\n"),
        ("a NUL", good[:-1] + "\0"), ("in capitals", good.upper()), ("many characters", "z" * 300_000),
        *((f"{char!r} is no digit", good[:20] + char + good[21:]) for char in "0OIl+/_-\u0661\uff11\u00e9\U0001d7cf"),
        ("an RSA key", "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"),
        ("a secp256k1 key", "16Uiu2HAm9GwvrYzhSGXc6K2Ydk6nxT1D7LLdAWRHTRrQxWhTZPKF"),
        ("a CID of version 1", "bafzaajaiaejcbzdibmxyzdjbmxkdijnagcmy3ijjsrmaq7s3yy4dvo3vxqh2fxgf"),
    ):  # fmt: skip
        text.invalid(name, bad.encode(), "bad author")
    for place, byte in ((1, 0x25), (2, 0x09), (3, 0x00), (3, 0x02), (4, 0x13), (5, 0x21)):
        header = ID_HEADER[:place] + bytes([byte]) + ID_HEADER[place + 1 :]
        text.invalid(f"another header: {header.hex()}", base58(header + ANN.public).encode(), "bad author")
    for name, weak in weak_keys():
        text.invalid(name, peer_id(weak).encode(), "bad author", "WeakKey")
    return [text, public]


def key_files() -> list[Group]:
    group, good = Group("key-file"), KEY_HEADER + ANN.seed + ANN.public
    for key in (Key(bytes(range(32))), ANN, BOB):
        group.valid("a key file", KEY_HEADER + key.seed + key.public, key.peer)
    for place in (0, 1, 2, 3, 4, 35, 36, 67):
        changed = good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        group.invalid(f"byte {place} changed", changed, "malformed")
    for name, data in (
        ("empty", b""), ("a byte less", good[:-1]), ("a byte more", good + b"\0"), ("the header alone", good[:4]),
        ("without the public half", good[:36]), ("without a header", good[4:]), ("halves exchanged", good[:4] + good[36:] + good[4:36]),
        ("the public half of another", good[:36] + BOB.public), ("zeros", bytes(68)), ("the old form, public half twice", b"\x08\x01\x12\x60" + good[4:] + ANN.public),
        ("fields in another order", b"\x12\x40" + good[4:] + b"\x08\x01"), ("PEM", b"-----BEGIN PRIVATE KEY-----\n" * 3),
        ("sign of the public half", good[:67] + bytes([good[67] ^ 0x80])),
    ):  # fmt: skip
        group.invalid(name, data, "malformed")
    return [group]


def names() -> list[Group]:
    group, longest = Group("swarm-name"), LIMITS["MAX_NAME_CHARS"]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-"
    for name in ("a", SWARM, "-", "..", alphabet[:longest], alphabet[-longest:], "s" * longest):
        tag = hashlib.sha256(f"swarm-node/{VERSION}/swarm\0{name}".encode()).hexdigest()
        group.valid("a name, and the tag of its swarm", name.encode(), tag[: 2 * LIMITS["SWARM_TAG_BYTES"]])
    for name in ("", "s" * (longest + 1), "a\n", "\na", " a", *(f"a{char}b" for char in " \0\n\t/\\:~@,*%'`^[{\x7f\u00e9\u0430\u200b")):
        group.invalid(f"{name[:9]!r} is no name", name.encode(), "malformed")
    return [group]


def signatures() -> list[Group]:
    kind, message = "rollout-group", b"message"
    group = Group("signature", common={"author": ANN.peer, "kind": kind, "swarm": SWARM})
    bound = domain(kind) + message
    good = ANN.sign(bound)
    r, s = good[:32], int.from_bytes(good[32:], "little")
    bad = "bad signature"
    for each in (kind, "announcement"):
        for name, text in (("a message", message), ("nothing", b""), ("many bytes", bytes(range(256)) * 8)):
            group.valid(f"{each}: {name}", ANN.sign(domain(each) + text) + text, kind=each)
    for place in (0, 7, 31, 32, 40, 63, 64, 70):
        changed = bytearray(good + message)
        changed[place] ^= 1
        group.invalid(f"byte {place} changed", bytes(changed), bad)
    for name, data in (
        ("nothing", b""), ("a byte short", ANN.sign(domain(kind))[:-1]), ("zeros", bytes(64) + message), ("ones", b"\xff" * 64 + message),
        ("the halves exchanged", good[32:] + r + message), ("a byte more of the message", good + message + b"\0"),
        ("of another key", EVE.sign(bound) + message), ("of the message without a domain", ANN.sign(message) + message),
        ("of the domain without its last NUL", ANN.sign(domain(kind)[:-1] + message) + message),
        ("of another kind", ANN.sign(domain("announcement") + message) + message), ("of a kind that is not", ANN.sign(domain("rollout") + message) + message),
        ("as Ed25519ctx", ANN.sign(b"SigEd25519 no Ed25519 collisions\0\0" + bound) + message),
        ("as Ed25519ph", ANN.sign(b"SigEd25519 no Ed25519 collisions\1\0" + hashlib.sha512(bound).digest()) + message),
        *((f"of version {n}", ANN.sign(domain(kind, version=n) + message) + message) for n in range(VERSION + 2) if n != VERSION),
        *((f"for the swarm {other!r}", ANN.sign(domain(kind, other) + message) + message) for other in (SWARM + "2", SWARM[:-1], SWARM.title(), "", SWARM + "\0")),
    ):  # fmt: skip
        group.invalid(name, data, bad)
    for count in (1, 2, 8, 14):
        higher = r + (s + count * ORDER).to_bytes(32, "little") + message
        group.invalid(f"S + {count} L", higher, bad, "Malleable")
    for name, number in (("0", 0), ("L", ORDER), ("L - 1", ORDER - 1), ("-S", ORDER - s), ("2^255 - 1", 2**255 - 1), ("2^256 - 1", 2**256 - 1)):  # fmt: skip
        group.invalid(f"S is {name}", r + number.to_bytes(32, "little") + message, bad)
    for power in range(1, 8):
        extra = times(power, ORDER_8)
        group.invalid(f"R with {power} times a point of order 8", ANN.sign(bound, extra) + message, bad, "LowOrderResidue")
        group.invalid(f"R is {power} times a point of order 8", ANN.sign(bound, extra, 0) + message, bad, "LowOrderR")
    group.valid("R is the neutral point", ANN.sign(bound, secret=0) + message, None, "LowOrderR")
    for name, number in (("y = P + 1", P + 1), ("x = -0", 1 | 1 << 255)):
        odd = ANN.sign(bound, secret=0, spelling=number.to_bytes(32, "little")) + message
        group.invalid(f"R is the neutral point, {name}", odd, bad, "SecondSpelling")
    mixed = Key(b"m" * 32, ORDER_8)
    for counter in range(24):
        text = b"%d" % counter
        signature = mixed.sign(domain(kind) + text)
        if _number(signature[:32], mixed.public, domain(kind) + text) % 8:
            group.invalid("the key has a part of order 8", signature + text, bad, "MixedKey", author=mixed.peer)
        else:
            group.valid("the key has a part of order 8, which cancels", signature + text, None, "MixedKey", author=mixed.peer)
    return [group, *authors(kind, message)]


def authors(kind: str, message: bytes) -> Iterator[Group]:
    """Of ids that are none, and keys that anybody can sign for: with S = 0 and R = key or neutral point."""
    group = Group("signature", common={"kind": kind, "swarm": SWARM})
    signature = ANN.sign(domain(kind) + message)
    for author in ("", ANN.peer[:-1], ANN.peer + "1", "0" + ANN.peer[1:], ANN.peer.lower()):
        group.invalid("no id", signature + message, "bad author", author=author)
    group.invalid("the id of another", signature + message, "bad signature", author=BOB.peer)
    for name, weak in list(weak_keys())[:12]:
        for first in (spelled((0, 1)), weak):
            group.invalid(name, first + bytes(32) + message, "bad author", "WeakKey", author=peer_id(weak))
    off = peer_id((2).to_bytes(32, "little"))
    group.invalid("no point of the curve", signature + message, ["bad signature", "bad author"], "OffCurve", author=off)
    yield group
