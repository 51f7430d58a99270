"""Cards of a swarm and proofs of membership: which hold, why others are refused. Cases: cards.toml
and members.toml.
"""

import hashlib
import json
import tomllib
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.vectors.forms import Group, canonical
from lab.vectors.keys import ORDER, ORDER_8, Key, flipped, peer_id, weak_keys
from lab.vectors.messages import changed, path_of, put, shapes

CASES: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
PRIVATE: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("members.toml").read_text(encoding="utf-8")
)
NOW, DAY, MOST = 1_800_000_000, 86_400, 16_384
Third = tuple[str, bytes, str, str]  # comment, card 3, why it is refused, flag
Case = tuple[str, list[bytes], str, str, dict[str, Any]]
KEYS = ANN, BOB, CEM, DAN, EVE, _ = [Key(letter.encode() * 32) for letter in "abcdef"]


def card(number: int = 3, **fields: Any) -> dict[str, Any]:
    # Each card replaces one signer
    signers = sorted(key.peer for key in KEYS[number - 1 : number + 2])
    whole: dict[str, Any] = CASES["card"] | {
        "number": number,
        "network": NETWORK if number > 1 else "",
        "threshold": 2,
    }
    whole |= {"issued": NOW + number, "expires": NOW + number + 90 * DAY, "signers": signers}
    return (
        whole
        | {"bootstrap": [f"/ip4/203.0.113.7/tcp/31330/p2p/{ANN.peer}"], "tasks": [CASES["task"]]}
        | fields
    )


def text(fields: dict[str, Any]) -> bytes:  # the bytes that are signed
    return f"swarm-node/card\0{NETWORK}\0".encode() + canonical(fields)


def spelt(fields: dict[str, Any], signatures: dict[str, bytes]) -> bytes:
    texts = {
        peer: urlsafe_b64encode(made).decode().rstrip("=") for peer, made in signatures.items()
    }
    return canonical({"card": fields, "signatures": texts})


def made(fields: dict[str, Any], *by: Key) -> bytes:
    return spelt(fields, {key.peer: key.sign(text(fields)) for key in by})


NETWORK = b32encode(hashlib.sha256(canonical(card(1))).digest()[:16]).decode()[:26].lower()
DOMAIN = f"swarm-node/member\0{NETWORK}\0".encode()
COMMON = {"network": NETWORK, "now": NOW}
CHAIN = [made(card(1), ANN, BOB), made(card(2), BOB, CEM), made(card(), CEM, DAN)]


def cards() -> list[Group]:
    """The input is one card a line; the output is the content hash of the last one, without its
    signatures.
    """
    unsigned = made(card())
    groups = [
        Group("card", b"\n".join([*CHAIN[:2], last]), common=COMMON)
        for last in (CHAIN[2], unsigned)
    ]
    thirds: list[Case] = [
        (a, [*CHAIN[:2], b], c, d, {}) for a, b, c, d in (*forgeries(), *contents(), *spellings())
    ]
    for comment, chain, reason, flag, fields in (*chains(), *thirds):
        data, last = b"\n".join(chain), b"" if reason else canonical(json.loads(chain[-1])["card"])
        group, why = groups[data.endswith(unsigned[-16:])], CASES["reasons"].get(reason, "")
        put(group, comment, data, why, flag, named=last, **fields)
    return groups


def chains() -> Iterator[Case]:
    """Chains of cards that differ in the cards, their signers, what the receiver knows, and its
    time.
    """
    for comment, places, reason, told in CASES["cases"]["chains"]:
        fields = {
            name: canonical(card(**value)).hex() if name == "newest" else value
            for name, value in told.items()
        }
        yield f"{comment}: {len(places)}", [CHAIN[place] for place in places], reason, "", fields
    for number, changes, letters, reason in CASES["cases"]["made"]:
        whole = made(card(number) | changes, *(KEYS["abcdef".index(letter)] for letter in letters))
        told = {"now": changes.get("issued", NOW)}
        yield (
            f"card {number} with {changes} by {letters}",
            [*CHAIN[: number - 1], whole],
            reason,
            "",
            told,
        )


def forgeries() -> Iterator[Third]:
    """Signatures that do not hold."""
    good = {key.peer: key.sign(text(card())) for key in (CEM, DAN, EVE)}
    of_cem, alone = good[CEM.peer], canonical(card())
    over = of_cem[:32] + (int.from_bytes(of_cem[32:], "little") + ORDER).to_bytes(32, "little")
    wrong = {
        f"byte {place} of a signature changed": flipped(of_cem, place) for place in (0, 31, 32, 63)
    }
    wrong |= {
        "zeros": bytes(64),
        "of another signer": good[DAN.peer],
        "of the card alone": CEM.sign(alone),
    }
    wrong |= {
        "of another card": CEM.sign(text(card(notes=""))),
        "R of order 8 more": CEM.sign(text(card()), ORDER_8),
    }
    wrong |= {
        "for another network": CEM.sign(b"swarm-node/card\0" + b"a" * 26 + b"\0" + alone),
        "S + L": over,
    }
    for comment, signature in wrong.items():
        yield comment, spelt(card(), good | {CEM.peer: signature}), "forged", ""
    for peer in ("", "\u20ac", "1" * 52, ANN.peer[:-1]):
        yield f"by {peer[:9]!r}", spelt(card(), good | {peer: bytes(64)}), "forged", ""


def contents() -> Iterator[Third]:
    """Cards with contents that are refused, and with sizes around the limits."""
    for name, reason, *values in CASES["cases"]["changes"]:
        for value in values:  # a card refused before its signatures needs none
            by = (
                ()
                if reason in ("malformed", "canonical", "spelling", "key", "over")
                else (CEM, DAN)
            )
            whole = made(changed(card(), path_of(name), value), *by)
            yield f"{name} is {canonical(value).decode()[:40]}", whole, reason, ""
    for name, item, low, high in CASES["cases"]["sizes"]:
        for count in sorted({low - 1, low, high, high + 1} - {-1}):
            reason = "" if low <= count <= high else "over"
            yield (
                f"{name} of {count}",
                made(card(**{name: item * count}), CEM, DAN),
                reason,
                "Limit",
            )
    for comment, value, _, flag in shapes({"card": card(), "signatures": {}}):
        yield comment, canonical(value), "malformed", flag


def spellings() -> Iterator[Third]:
    """Spellings of a card that are refused, and cards around the size limit."""
    whole, empty = CHAIN[2], dict.fromkeys(CASES["task"], "n" * 64) | {"digest": "AAAAAAAAAAA"}
    for comment, old, new, reason in CASES["cases"]["spellings"]:
        yield comment, whole.replace(old.encode(), new.encode(), 1), reason, ""
    for size in (0, 1, 100, len(whole) - 1):
        yield f"cut off after {size} bytes", whole[:size], "malformed", "CutOff"
    large = card(tasks=[empty | {"config_id": f"{number:064}"} for number in range(44)], notes="")
    room = MOST - len(made(large, CEM, DAN))
    for size, reason in ((room, ""), (room + 1, "big"), (10**6, "big")):
        yield (
            f"of {MOST + size - room} bytes",
            made(large | {"notes": "x" * size}, CEM, DAN),
            reason,
            "Limit",
        )


WEAK, MANY = next(weak_keys())[1], sorted(Key(bytes([number]) * 32).peer for number in range(129))
NAMES = {
    **{name: key.peer for name, key in zip("abcdef", KEYS, strict=True)},
    "weak": peer_id(WEAK),
    "none": "1" * 52,
}


def private(**said: Any) -> dict[str, Any]:
    if "members" in said:
        return card(2, members=json.loads(said["members"]))
    told = {key: value for key, value in (PRIVATE["members"] | said).items() if value != "gone"}
    named = {
        key: [NAMES.get(str(k), k) for k in value]
        for key, value in told.items()
        if isinstance(value, list)
    }
    many = {key: MANY[: value["many"]] for key, value in told.items() if isinstance(value, dict)}
    return card(2, members=told | named | many)


def certified(letters: str, ends: Sequence[int] = ()) -> bytes:
    chain = [KEYS["abcdef".index(each)] for each in letters]
    signed = [
        (NOW + end).to_bytes(4) + key.public
        for key, end in zip(chain[1:], ends or [30 * DAY] * 9, strict=False)
    ]
    pairs = zip(chain, signed, strict=False)
    return chain[0].public + b"".join(each + issuer.sign(DOMAIN + each) for issuer, each in pairs)


def proofs(whole: bytes) -> Iterator[tuple[str, bytes, str, int, dict[str, Any]]]:
    for comment, letters, reason, ends, other in PRIVATE["chains"]:
        known = {"card": canonical(private(**other["card"])).hex()} if "card" in other else {}
        told = other | known | {"holder": NAMES[other.get("holder", letters[-1])]}
        yield comment, certified(letters, ends), reason, NOW + min(ends, default=30 * DAY), told
    for comment, letter, domain, point in PRIVATE["forged"]:
        signature = KEYS["abcdef".index(letter)].sign(
            domain.encode() + whole[132:168], ORDER_8 if point else (0, 1)
        )
        yield comment, whole[:168] + signature + whole[232:], "forged", 0, {}
    yield from (
        (f"byte {at} changed", flipped(whole, at), "forged", 0, {}) for at in PRIVATE["flipped"]
    )
    weak = whole[132:136] + WEAK  # a key of order 1: with R = 1 and S = 0 it has signed anything
    chain = whole[:132] + weak + EVE.sign(DOMAIN + weak) + whole[232:268] + b"\1" + bytes(63)
    yield "by a key that anybody can sign for", chain, "forged", 0, {}
    yield from (
        (f"{n} bytes", whole.ljust(n, b"\0")[:n], "malformed", 0, {}) for n in PRIVATE["sizes"]
    )


def members() -> list[Group]:
    """The output is the time at which the membership ends; of the group of cards it is as in
    cards.json.
    """
    usual, whole = (
        {"card": canonical(private()).hex(), "holder": BOB.peer, "now": NOW},
        certified("deab"),
    )
    group, told = Group("member", whole, common=usual), Group("card", CHAIN[0], common=COMMON)
    for comment, data, why, ends, other in proofs(whole):
        (group.invalid if why else group.valid)(
            comment, data, PRIVATE["reasons"].get(why, ends), **other
        )
    for why, said, fields in (
        (why, said, private(**said)) for why, *changes in PRIVATE["cards"] for said in changes
    ):
        data = b"\n".join([CHAIN[0], made(fields, BOB, CEM)])
        put(
            told,
            canonical(said).decode(),
            data,
            CASES["reasons"].get(why, ""),
            named=canonical(fields),
        )
    return [group, told]
