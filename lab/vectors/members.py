"""Private swarms: their cards, and chains of certificates that let in or are refused. Cases stand in members.toml."""

import tomllib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from lab.vectors import cards
from lab.vectors.cards import DAY, KEYS, NETWORK, NOW
from lab.vectors.forms import LIMITS, Group, canonical
from lab.vectors.keys import ORDER, ORDER_8, Key, flipped, peer_id, weak_keys
from lab.vectors.messages import put

CASES: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
WEAK = peer_id(next(weak_keys())[1])
MANY = sorted(Key(bytes([number]) * 32).peer for number in range(129))
NAMES = {**{name: key.peer for name, key in zip("abcdef", KEYS, strict=True)}, "weak": WEAK, "none": "1" * 52}


def peers(value: Any) -> Any:
    """Letters as the ids of keys; a number as so many of them."""
    if isinstance(value, list):
        return [NAMES.get(str(each), each) for each in value]
    return MANY[: value["many"]] if isinstance(value, dict) and "many" in value else value


def private(**said: Any) -> dict[str, Any]:
    members = {"admit": ["d"], "chain": LIMITS["MAX_CERTIFICATES"], "revoked": []} | said
    return cards.card(2, members={key: peers(value) for key, value in members.items() if value != "gone"})


def proof(letters: str, ends: Sequence[int] = (), sign: Callable[[int, Key, bytes], bytes] | None = None) -> bytes:
    """Each lets in the one behind it; `ends` in seconds from now."""
    chain, text = [KEYS["abcdef".index(each)] for each in letters], f"swarm-node/member\0{NETWORK}\0".encode()
    data = chain[0].public
    for place, (issuer, holder) in enumerate(pairwise(chain)):
        signed = (NOW + (ends[place] if ends else 30 * DAY)).to_bytes(4) + holder.public
        data += signed + (sign(place, issuer, text + signed) if sign else issuer.sign(text + signed))
    return data


def members() -> list[Group]:
    """Chains of certificates; and cards, whose input is one a line."""
    group = Group(
        "member", proof("deab"), common={"card": canonical(private()).hex(), "holder": KEYS[1].peer, "now": NOW}
    )
    for comment, letters, reason, ends, told in CASES["chains"]:
        fields = {key: canonical(private(**told["card"])).hex() if key == "card" else told[key] for key in told}
        fields |= {"holder": NAMES[told.get("holder", letters[-1])]}
        _add(group, comment, proof(letters, ends), reason, NOW + min(ends, default=30 * DAY), **fields)
    for comment, data in forgeries():
        _add(group, comment, data, "forged", 0)
    whole = proof("deab")
    for size in (0, 1, 31, 32, 33, 131, 133, 231, len(whole) - 1, len(whole) + 1, 10**5):
        _add(group, f"{size} bytes", whole.ljust(size, b"\0")[:size], "malformed", 0, flags="CutOff")
    told = Group("card", cards.CHAIN[0], common={"network": NETWORK, "now": NOW})
    for reason, *changes in CASES["cards"]:
        for fields in changes:
            card = cards.card(2, **fields) if "members" in fields else private(**fields)
            data, why = cards.made(card, KEYS[1], KEYS[2]), cards.CASES["reasons"].get(reason, "")
            put(told, f"{canonical(fields).decode()[:50]}", cards.CHAIN[0] + b"\n" + data, why, named=canonical(card))
    null = cards.made(cards.card(2, members=None), KEYS[1], KEYS[2])
    put(told, "null", cards.CHAIN[0] + b"\n" + null, cards.CASES["reasons"]["spelling"])
    return [group, told]


def _add(group: Group, comment: str, data: bytes, reason: str, ends: int, flags: str = "", **fields: Any) -> None:
    if reason:
        group.invalid(comment, data, CASES["reasons"][reason], *([flags] if flags else []), **fields)
    else:
        group.valid(comment, data, ends, **fields)


def forgeries() -> list[tuple[str, bytes]]:
    """Signatures that do not hold, and a key in the chain that anybody can sign for."""

    def in_place(at: int, made: Callable[[Key, bytes], bytes]) -> bytes:
        return proof("deab", (), lambda place, key, text: made(key, text) if place == at else key.sign(text))

    def beyond(key: Key, text: bytes) -> bytes:
        made = key.sign(text)
        return made[:32] + (int.from_bytes(made[32:], "little") + ORDER).to_bytes(32, "little")

    ways: dict[str, Callable[[Key, bytes], bytes]] = {
        "zeros": lambda key, text: bytes(64),
        "by another": lambda key, text: KEYS[5].sign(text),
        "without the domain": lambda key, text: key.sign(text[-36:]),
        "for another network": lambda key, text: key.sign(text.replace(NETWORK.encode(), b"a" * 26)),
        "as a card": lambda key, text: key.sign(text.replace(b"/member", b"/card")),
        "S + L": beyond,
        "R of order 8 more": lambda key, text: key.sign(text, ORDER_8),
    }
    found = [(f"signature {at + 1}: {name}", in_place(at, made)) for at in range(3) for name, made in ways.items()]
    whole, weak = proof("deab"), next(weak_keys())[1]
    found += [(f"byte {at} changed", flipped(whole, at)) for at in (35, 70, 100, 135, 170, 200, 233, 235, 331)]
    return [*found, ("a weak key", whole[:136] + weak + whole[168:])]
