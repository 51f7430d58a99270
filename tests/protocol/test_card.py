"""Chains of cards that hold are followed; a thousand hostile ones are refused for their reason, and
none raises.
"""

import json
from collections.abc import Callable, Sequence
from functools import reduce
from random import Random
from typing import Any

from protocol.card import DAY, MAX_BYTES, MAX_LIFE, Card, Refusal, Signed, follow, network_id, sign
from protocol.codec import content_hash, encode
from protocol.identity import Identity, peer_id, public_key

NOW = 1_800_000_000
ALL = ANN, BOB, CEM, DAN, EVE, _ = [
    Identity.from_seed_bytes(bytes([k]) * 32) for k in (1, 2, 3, 4, 5, 1)
]
TASK = {
    "environment": "basics",
    "version": "1",
    "dataset": "next",
    "config_id": "few",
    "digest": "AAAAAAAAAAA",
}
DOOR = f"/ip4/203.0.113.7/tcp/31330/p2p/{ANN.peer_id}"
# One too many for a card
PUBLIC = [public_key(Identity.from_seed_bytes(bytes([k]) * 32).peer_id) for k in range(10)]


def fields(number: int, holders: Sequence[Identity], **changed: Any) -> dict[str, Any]:
    whole = {
        "format": 1,
        "name": "friends",
        "network": NETWORK if number > 1 else "",
        "number": number,
        "notes": "\n",
    }
    whole |= {
        "signers": sorted(each.peer_id for each in holders),
        "threshold": 2,
        "bootstrap": [DOOR],
        "tasks": [TASK],
    }
    whole |= {
        "issued": NOW + number,
        "expires": NOW + number + 90 * DAY,
        "episodes": 8,
        "characters": 900,
    }
    return whole | changed


def raw(card: object, signatures: object = None) -> bytes:
    whole = {"card": card, "signatures": signatures or {}}
    return json.dumps(whole, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def made(number: int, holders: Sequence[Identity], by: Sequence[Identity], **changed: Any) -> bytes:
    return encode(
        reduce(sign, by, Signed.model_validate_json(raw(fields(number, holders, **changed))))
    )


FIRST = made(1, (ANN, BOB, CEM), (ANN, BOB))
NETWORK = network_id(Signed.model_validate_json(FIRST).card)
# Each card changes a key
CHAIN = [FIRST, *(made(n, ALL[n - 1 : n + 2], ALL[n - 1 : n + 1]) for n in (2, 3, 4))]
CARDS = [Signed.model_validate_json(each).card for each in CHAIN]
# Signers of card 4, and of the card 5 that hostile cards replace
OLD, NEW = (DAN, EVE, ANN), (EVE, ANN, BOB)


def test_a_chain_that_holds_is_followed_while_its_newest_card_is_in_force() -> None:
    for count, newest in enumerate(CARDS, 1):
        assert {
            follow(CHAIN[:count], NETWORK, NOW, before) == newest
            for before in (None, *CARDS[:count])
        } == {True}
    # The format is published: it must not change
    assert content_hash(b"".join(CHAIN)).hex()[:16] == "63e86bb12951d1da"
    first, last = CARDS[-1].issued - DAY, CARDS[-1].expires + DAY
    assert [
        isinstance(follow(CHAIN, NETWORK, now), Card) for now in (first - 1, first, last - 1, last)
    ] == [0, 1, 1, 0]


def fifth(
    card: bytes = b"", by: Sequence[Identity] = (EVE, ANN), now: int = NOW, **changed: Any
) -> Card | Refusal:
    return follow([*CHAIN, card or made(5, NEW, by, **changed)], NETWORK, now, CARDS[-1])


def forged(r: Random) -> Card | Refusal:
    good = json.loads(made(5, NEW, (EVE, ANN, DAN)))["signatures"]
    key, other = (
        r.choice([*good]),
        made(5, NEW, (EVE, ANN, DAN), **r.choice([{"notes": "x"}, {"network": "a" * 26}])),
    )
    false = r.choice(
        [
            json.loads(other)["signatures"][key],
            *(good[each] for each in good if each != key),
            "A" * 86,
        ]
    )
    return fifth(
        r.choice([raw(fields(5, NEW), good | {key: false}), made(5, NEW, (EVE, ANN, CEM))])
    )


def over(r: Random) -> Card | Refusal:
    tasks, wrong = (
        [TASK | {"dataset": f"{k:02}"} for k in range(65)],
        {"threshold": (0, 4), "notes": ("x" * 1001,)},
    )
    wrong |= {
        "bootstrap": ([], [DOOR] * 17),
        "tasks": ([], tasks),
        "signers": (sorted(map(peer_id, PUBLIC)),),
    }
    wrong |= {
        "episodes": (0, 1, 65),
        "characters": (0, 16385),
        "expires": (NOW, NOW + DAY, NOW + MAX_LIFE + 6),
    }
    return fifth(**{(field := r.choice([*wrong])): r.choice(wrong[field])})


def misspelt(r: Random) -> Card | Refusal:
    good, two = made(5, NEW, (EVE, ANN)), [TASK, TASK | {"digest": "BAAAAAAAAAA"}]
    spellings = [
        good + b"\n",
        b" " + good,
        good.replace(b'"card', b'"\\u0063ard'),
        json.dumps(json.loads(good)).encode(),
    ]
    backwards = made(5, NEW, (), signers=sorted((each.peer_id for each in NEW), reverse=True))
    twice = good.replace(b'"name"', b'"format":1,"name"')
    return fifth(r.choice([*spellings, made(5, NEW, (), tasks=two), backwards, twice]))


def nonsense(r: Random) -> Card | Refusal:
    good, wrong = (
        made(5, NEW, (EVE, ANN)),
        r.choice((None, -1, 1.5, "x", [], {}, True, 10**400, [{}], "\0")),
    )
    field = raw(
        fields(5, NEW)
        | {r.choice(("format", "network", "number", "issued", "threshold", "episodes")): wrong}
    )
    return fifth(
        r.choice(
            [good[: r.randrange(1, len(good))], r.randbytes(300), field, raw(wrong), b"[" * 9000]
        )
    )


WEAK, ODD = peer_id(bytes(32)), "1" * 52  # anybody signs for the first; the second is no key
KINDS: Sequence[tuple[Refusal, Callable[[Random], Card | Refusal]]] = (
    (Refusal.FORGED, forged),
    (
        Refusal.GAP,
        lambda r: follow(CHAIN[: (gone := r.randrange(3))] + CHAIN[gone + 1 :], NETWORK, NOW),
    ),
    (Refusal.OVER_LIMITS, over),
    (Refusal.NOT_CANONICAL, misspelt),
    (Refusal.MALFORMED, nonsense),
    (Refusal.TOO_BIG, lambda r: fifth(b"{" + r.randbytes(MAX_BYTES))),
    (Refusal.ROLLED_BACK, lambda r: follow(CHAIN[: r.randrange(1, 4)], NETWORK, NOW, CARDS[-1])),
    (Refusal.EXPIRED, lambda r: fifth(now=NOW + 91 * DAY + 5 + r.randrange(DAY**2))),
    (Refusal.NOT_YET, lambda r: fifth(now=NOW - DAY - r.randrange(NOW - DAY))),
    (Refusal.TOO_FEW, lambda r: fifth(by=r.choice([(), (EVE,), (DAN, EVE), (DAN,)]))),
    (Refusal.TOO_FEW_BEFORE, lambda r: fifth(by=(BOB, r.choice((EVE, ANN))))),
    (
        Refusal.OTHER_NETWORK,
        lambda r: follow([made(1, NEW, NEW, network=r.choice(("", NETWORK)))], NETWORK, NOW),
    ),
    (Refusal.OTHER_NETWORK, lambda r: fifth(network=r.choice(("", "a" * 26)))),
    (
        Refusal.BAD_KEY,
        lambda r: fifth(raw(fields(5, NEW, signers=[r.choice((WEAK, ODD, "", "\u20ac"))]))),
    ),
    (Refusal.BAD_KEY, lambda r: fifth(bootstrap=[DOOR[:-52] + r.choice((WEAK, ODD))])),
    (
        Refusal.CONFLICT,
        lambda r: follow(
            [*CHAIN[:3], made(4, OLD, OLD, notes=str(r.random()))], NETWORK, NOW, CARDS[-1]
        ),
    ),
)


def test_a_thousand_hostile_cards_are_refused_each_with_its_reason() -> None:
    r = Random(36)
    for number in range(1000):
        reason, make = KINDS[number % len(KINDS)]
        assert (found := make(r)) is reason, (number, found)
    assert {reason for reason, _ in KINDS} == {*Refusal}


def test_no_changed_byte_is_taken() -> None:
    r = Random(36)
    for which, whole in [*enumerate(CHAIN)] * 500:
        at, put = r.randrange(len(whole)), r.randbytes(r.randrange(3))
        changed = whole[:at] + put + whole[at + r.randrange(4) :]
        found = follow([*CHAIN[:which], changed, *CHAIN[which + 1 :]], NETWORK, NOW)
        assert isinstance(found, Refusal) or changed == whole
