"""Peer ids, key files, names of swarms and signatures. Ed25519 is written out here, so that
signatures can be made that no library makes: the curve is -x^2 + y^2 = 1 + d x^2 y^2 over the
integers modulo P (RFC 8032).
"""

import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lab.vectors.forms import LIMITS, SWARM, VERSION, Group

P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
ID_HEADER, KEY_HEADER = bytes.fromhex("002408011220"), bytes.fromhex("08011240")

CASES: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
KIND, MESSAGE = "rollout-group", b"message"

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
ORDER_8 = with_y(0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826)


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
        return (
            int.from_bytes(hashlib.sha512(self.seed).digest()[:32], "little") & (2**254 - 8)
            | 2**254
        )

    @cached_property
    def public(self) -> bytes:
        return spelled(plus(times(self.scalar, BASE), self.extra))

    @cached_property
    def peer(self) -> str:
        return peer_id(self.public)

    def sign(
        self,
        message: bytes,
        extra: Point = (0, 1),
        secret: int | None = None,
        spelling: bytes = b"",
    ) -> bytes:
        """RFC 8032's signature; or one with `extra` added to R, another logarithm of R, or another
        spelling of R.
        """
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
            if x & 1 == 0:  # a point with odd x has the y of another power, and sign 1
                yield (
                    f"y of order 8 times {power}, sign {sign}",
                    (y | sign << 255).to_bytes(32, "little"),
                )
    for y in range(P, 2**255):
        yield f"y = P + {y - P}, a second spelling", y.to_bytes(32, "little")
    for y in (P, P + 1, P + 3, P + 18):
        yield f"y = P + {y - P}, sign 1", (y | 1 << 255).to_bytes(32, "little")


def keys() -> list[Group]:
    """Peer ids, key files and names of swarms."""
    return [*peer_ids(), key_files(), names()]


def peer_ids() -> list[Group]:
    text, public = Group("peer-id"), Group("public-key")
    for key in (Key(bytes(range(32))), ANN, BOB, EVE, Key(bytes(32)), Key(b"\xff" * 32)):
        text.valid("an id", key.peer.encode(), key.public.hex())
        public.valid("a key", key.public, key.peer)
    for off in (2, 7, 8, P - 2):
        key_bytes = off.to_bytes(32, "little")
        text.valid(
            f"y = {off} is no point of the curve",
            peer_id(key_bytes).encode(),
            key_bytes.hex(),
            "OffCurve",
        )
    for count in (0, 31, 33, 64):
        public.invalid(f"a key of {count} bytes", bytes(count), "malformed")
    for name, bad in (*CASES["not_peer_ids"], ("300,000 characters", "z" * 300_000)):
        text.invalid(name, bad.encode(), "bad author")
    for place, byte in ((1, 0x25), (2, 0x09), (3, 0x00), (3, 0x02), (4, 0x13), (5, 0x21)):
        header = ID_HEADER[:place] + bytes([byte]) + ID_HEADER[place + 1 :]
        text.invalid(
            f"another header: {header.hex()}", base58(header + ANN.public).encode(), "bad author"
        )
    for name, weak in weak_keys():
        text.invalid(name, peer_id(weak).encode(), "bad author", "WeakKey")
    return [text, public]


def key_files() -> Group:
    group, good = Group("key-file"), KEY_HEADER + ANN.seed + ANN.public
    for key in (Key(bytes(range(32))), ANN, BOB):
        group.valid("a key file", KEY_HEADER + key.seed + key.public, key.peer)
    for place in (0, 1, 2, 3, 4, 35, 36, 67):
        group.invalid(f"byte {place} changed", flipped(good, place), "malformed")
    for name, data in CASES["not_key_files"]:
        group.invalid(name, bytes.fromhex(data), "malformed")
    return group


def names() -> Group:
    group = Group("swarm-name")
    for name in (*CASES["names"], "s" * LIMITS["MAX_NAME_CHARS"]):
        tag = hashlib.sha256(f"swarm-node/{VERSION}/swarm\0{name}".encode()).digest()[
            : LIMITS["SWARM_TAG_BYTES"]
        ]
        group.valid("a name, and the tag of its swarm", name.encode(), tag.hex())
    for name in (*CASES["not_names"], "s" * (LIMITS["MAX_NAME_CHARS"] + 1)):
        group.invalid(f"{name[:9]!r} is no name", name.encode(), "malformed")
    return group


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def signatures() -> list[Group]:
    bound, bad = domain(KIND) + MESSAGE, "bad signature"
    group = Group("signature", common={"author": ANN.peer, "kind": KIND, "swarm": SWARM})
    good, context = ANN.sign(bound), b"SigEd25519 no Ed25519 collisions"
    for kind in (KIND, "announcement"):
        for name, text in (
            ("a message", MESSAGE),
            ("nothing", b""),
            ("many bytes", bytes(range(256)) * 8),
        ):
            group.valid(f"{kind}: {name}", ANN.sign(domain(kind) + text) + text, kind=kind)
    for place in (0, 7, 31, 32, 40, 63, 64, 70):
        group.invalid(f"byte {place} changed", flipped(good + MESSAGE, place), bad)
    for name, text in CASES["signed"]:
        group.invalid(f"of {name}", ANN.sign(text.encode()) + MESSAGE, bad)
    for name, signature in (
        ("zeros", bytes(64)),
        ("ones", b"\xff" * 64),
        ("with its halves exchanged", good[32:] + good[:32]),
        ("of another key", EVE.sign(bound)),
        ("as Ed25519ctx", ANN.sign(context + b"\0\0" + bound)),
        ("as Ed25519ph", ANN.sign(context + b"\1\0" + hashlib.sha512(bound).digest())),
    ):
        group.invalid(name, signature + MESSAGE, bad)
    for size in (0, 32, 63):
        group.invalid(f"{size} bytes of it", ANN.sign(domain(KIND))[:size], bad, "CutOff")
    scalars(group, good, bad)
    torsion(group, bound, bad)
    return [group, authors()]


def scalars(group: Group, good: bytes, bad: str) -> None:
    """Signatures with another half S."""
    s = int.from_bytes(good[32:], "little")
    others = {
        "0": 0,
        "L": ORDER,
        "L - 1": ORDER - 1,
        "-S": ORDER - s,
        "2^255 - 1": 2**255 - 1,
        "2^256 - 1": 2**256 - 1,
    }
    for name, number in (
        others | {f"S + {count} L": s + count * ORDER for count in (1, 2, 8, 14)}
    ).items():
        flags = ["Malleable"] if number >= ORDER else []
        group.invalid(
            f"S is {name}", good[:32] + number.to_bytes(32, "little") + MESSAGE, bad, *flags
        )


def torsion(group: Group, bound: bytes, bad: str) -> None:
    """Signatures with points of small order in R or in the key."""
    for power in range(1, 8):
        extra = times(power, ORDER_8)
        name = f"{power} times a point of order 8"
        group.invalid(f"R with {name}", ANN.sign(bound, extra) + MESSAGE, bad, "LowOrderResidue")
        group.invalid(f"R is {name}", ANN.sign(bound, extra, 0) + MESSAGE, bad, "LowOrderR")
    group.valid("R is the neutral point", ANN.sign(bound, secret=0) + MESSAGE, None, "LowOrderR")
    for name, number in (("y = P + 1", P + 1), ("x = -0", 1 | 1 << 255)):
        odd = ANN.sign(bound, secret=0, spelling=number.to_bytes(32, "little")) + MESSAGE
        group.invalid(f"R is the neutral point, {name}", odd, bad, "SecondSpelling")
    mixed = Key(b"m" * 32, ORDER_8)
    for counter in range(24):
        text = b"%d" % counter
        signature = mixed.sign(domain(KIND) + text)
        if _number(signature[:32], mixed.public, domain(KIND) + text) % 8:
            group.invalid(
                "the key has a part of order 8",
                signature + text,
                bad,
                "MixedKey",
                author=mixed.peer,
            )
        else:
            comment = "the key has a part of order 8, which cancels"
            group.valid(comment, signature + text, None, "MixedKey", author=mixed.peer)


def authors() -> Group:
    """Authors with ids that are none, or keys that anybody can sign for: with S = 0 and R = key or
    neutral point.
    """
    group = Group("signature", common={"kind": KIND, "swarm": SWARM})
    signature = ANN.sign(domain(KIND) + MESSAGE)
    for author in ("", ANN.peer[:-1], ANN.peer + "1", "0" + ANN.peer[1:], ANN.peer.lower()):
        group.invalid("no id", signature + MESSAGE, "bad author", author=author)
    group.invalid("the id of another", signature + MESSAGE, "bad signature", author=BOB.peer)
    for name, weak in list(weak_keys())[:12]:
        for first in (spelled((0, 1)), weak):
            group.invalid(
                name, first + bytes(32) + MESSAGE, "bad author", "WeakKey", author=peer_id(weak)
            )
    off, either = peer_id((2).to_bytes(32, "little")), ["bad signature", "bad author"]
    group.invalid("no point of the curve", signature + MESSAGE, either, "OffCurve", author=off)
    return group
