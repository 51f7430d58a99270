"""Chains of cards that hold are followed; a thousand hostile ones are refused for their reason, and none raises."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocol.card import DAY, MAX_BYTES, MAX_LIFE, Card, Refusal, Signed, follow, network_of, sign
from protocol.codec import encode
from protocol.identity import Identity, peer_id

NOW = 1_800_000_000
ANN, BOB, CEM, DAN, EVE = (Identity.from_seed_bytes(bytes([k]) * 32) for k in range(1, 6))
TASK = {"environment": "basics", "version": "1", "dataset": "next", "config_id": "few", "digest": "AAAAAAAAAAA"}
DOOR = f"/ip4/203.0.113.7/tcp/31330/p2p/{ANN.peer_id}"


def fields(number: int, holders: Sequence[Identity], **changed: Any) -> dict[str, Any]:
    whole = {"format": 1, "name": "friends", "network": NETWORK if number > 1 else "", "number": number}
    whole |= {"signers": sorted(each.peer_id for each in holders), "threshold": 2, "bootstrap": [DOOR], "tasks": [TASK]}
    whole |= {"issued": NOW + number, "expires": NOW + number + 90 * DAY, "completions": 8, "characters": 900}
    return {**whole, "notes": "\x1b[2J\u202e na\xefve\n", **changed}


def raw(card: object, **signatures: str) -> bytes:
    whole = {"card": card, "signatures": signatures}
    return json.dumps(whole, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def made(number: int, holders: Sequence[Identity], by: Sequence[Identity], **changed: Any) -> bytes:
    signed = Signed.model_validate_json(raw(fields(number, holders, **changed)))
    for each in by:
        signed = sign(signed, each)
    return encode(signed)


NETWORK = ""
FIRST = made(1, (ANN, BOB, CEM), (ANN, BOB))
NETWORK = network_of(Signed.model_validate_json(FIRST).card)
CHAIN = [  # all three keys change, one a card
    FIRST,
    made(2, (BOB, CEM, DAN), (BOB, CEM)),
    made(3, (CEM, DAN, EVE), (CEM, DAN)),
    made(4, (DAN, EVE, ANN), (DAN, EVE, CEM)),
]
CARDS = [Signed.model_validate_json(each).card for each in CHAIN]
NEXT, OLD, NEW = 5, (DAN, EVE, ANN), (EVE, ANN, BOB)  # the card that hostile ones are in place of


def test_a_chain_that_holds_is_followed_while_its_newest_card_is_in_force() -> None:
    for count, newest in enumerate(CARDS, 1):
        for before in (None, *CARDS[:count]):
            assert follow(CHAIN[:count], NETWORK, NOW, before) == newest
    assert follow([*CHAIN, made(NEXT, NEW, (EVE, ANN))], NETWORK, NOW, CARDS[-1]) != CARDS[-1]
    first, last = CARDS[-1].issued - DAY, CARDS[-1].expires + DAY
    assert [isinstance(follow(CHAIN, NETWORK, now), Card) for now in (first - 1, first, last - 1, last)] == [0, 1, 1, 0]


def follows(card: bytes, now: int = NOW) -> Card | Refusal:
    return follow([*CHAIN, card], NETWORK, now, CARDS[-1])


def forged(r: Random) -> Card | Refusal:
    """Bytes of another's signature, of another card, of a signer's for another network, of a stranger's own."""
    good = json.loads(made(NEXT, NEW, (EVE, ANN, DAN)))["signatures"]
    key = r.choice([*good])
    other = r.choice([made(NEXT, NEW, (EVE, ANN, DAN), notes=str(r.random())), made(9, NEW, OLD, network="a" * 26)])
    false = r.choice([good[r.choice([each for each in good if each != key])], json.loads(other)["signatures"].get(key)])
    stranger = made(NEXT, NEW, (EVE, ANN, CEM))
    return follows(r.choice([raw(fields(NEXT, NEW), **{**good, key: false or "A" * 86}), stranger]))


def gapped(r: Random) -> Card | Refusal:
    gone = r.randrange(len(CHAIN))
    return follow([*CHAIN[:gone], *CHAIN[gone + 1 :], made(NEXT, NEW, (EVE, ANN))], NETWORK, NOW, r.choice(CARDS))


def over(r: Random) -> Card | Refusal:
    wrong: list[dict[str, Any]] = [
        {"threshold": r.choice((0, 4))},
        {"bootstrap": r.choice(([], [DOOR] * 17))},
        {"tasks": []},
    ]
    wrong += [{"completions": r.choice((0, 1, 65))}, {"characters": r.choice((0, 16385))}, {"notes": "x" * 1001}]
    wrong += [{"expires": NOW + NEXT + r.choice((0, DAY - 1, MAX_LIFE + 1))}, {"signers": []}]
    return follows(made(NEXT, NEW, (EVE, ANN), **r.choice(wrong)))


def misspelt(r: Random) -> Card | Refusal:
    good, twice = made(NEXT, NEW, (EVE, ANN)), made(NEXT, NEW, (EVE, ANN), tasks=[TASK, TASK])
    spellings = [good + b"\n", b" " + good, good.replace(b'"a', b'"\\u0061', 1), json.dumps(json.loads(good)).encode()]
    backwards = made(NEXT, NEW, (EVE, ANN), signers=sorted((each.peer_id for each in NEW), reverse=True))
    return follows(r.choice([*spellings, twice, backwards, good.replace(b'"name"', b'"format":1,"name"', 1)]))


def nonsense(r: Random) -> Card | Refusal:
    good, wrong = made(NEXT, NEW, (EVE, ANN)), r.choice((None, -1, 1.5, "x", [], {}, True, 10**400, [{}], "\0"))
    field = r.choice(
        [name for name in Card.model_fields if name not in ("name", "notes", "bootstrap", "tasks", "signers")]
    )
    cut, noise = good[: r.randrange(len(good))], r.randbytes(r.randrange(300))
    return follows(r.choice([cut, noise, raw({**fields(NEXT, NEW), field: wrong}), raw(wrong), b"[" * 9000, b"null"]))


WEAK, ODD = peer_id(bytes(32)), "1" * 52  # anybody signs for the first; the second is no key
KINDS: dict[Callable[[Random], Card | Refusal], Refusal] = {
    forged: Refusal.FORGED,
    gapped: Refusal.GAP,
    over: Refusal.OVER_LIMITS,
    misspelt: Refusal.NOT_CANONICAL,
    nonsense: Refusal.MALFORMED,
    lambda r: follows(b"{" + r.randbytes(MAX_BYTES)): Refusal.TOO_BIG,
    lambda r: follow(CHAIN[: r.randrange(1, 4)], NETWORK, NOW, CARDS[-1]): Refusal.ROLLED_BACK,
    lambda r: follows(made(NEXT, NEW, (EVE, ANN)), NOW + 91 * DAY + NEXT + r.randrange(DAY**2)): Refusal.EXPIRED,
    lambda r: follows(made(NEXT, NEW, (EVE, ANN)), NOW - DAY - r.randrange(NOW - DAY)): Refusal.NOT_YET,
    lambda r: follows(made(NEXT, NEW, r.choice([(), (EVE,), (DAN, EVE), (DAN,)]))): Refusal.TOO_FEW,
    lambda r: follows(made(NEXT, NEW, (BOB, r.choice((EVE, ANN))))): Refusal.TOO_FEW_BEFORE,
    lambda r: follow(
        [made(1, NEW, NEW, network=r.choice(("", "a" * 26, NETWORK)))], NETWORK, NOW
    ): Refusal.OTHER_NETWORK,
    lambda r: follows(made(NEXT, NEW, (EVE, ANN), network=r.choice(("", "a" * 26)))): Refusal.OTHER_NETWORK,
    lambda r: follow([], NETWORK, NOW): Refusal.MALFORMED,
    lambda r: follows(raw(fields(NEXT, NEW, signers=[r.choice((WEAK, ODD, "", "\u20ac"))]))): Refusal.BAD_KEY,
    lambda r: follow([*CHAIN[:3], made(4, OLD, OLD, notes=str(r.random()))], NETWORK, NOW, CARDS[-1]): Refusal.CONFLICT,
}


def test_a_thousand_hostile_cards_are_refused_each_with_its_reason() -> None:
    """Nothing but a count is left of them."""
    r, counted = Random(36), Counter[Refusal]()
    kinds = [*KINDS.items()]
    for number in range(1000):
        make, reason = kinds[number % len(kinds)]
        found = make(r)
        assert found is reason, (number, make.__name__, found)
        counted[reason] += 1
    assert counted.total() == 1000 and set(counted) == set(Refusal)


@given(st.integers(0, len(CHAIN) - 1), st.integers(0, 10_000), st.binary(max_size=4), st.integers(0, 4))
def test_no_changed_byte_is_taken(which: int, place: int, put: bytes, away: int) -> None:
    whole = CHAIN[which]
    at = place % len(whole)
    changed = whole[:at] + put + whole[at + away :]
    found = follow([*CHAIN[:which], changed, *CHAIN[which + 1 :]], NETWORK, NOW)
    assert isinstance(found, Refusal) or changed == whole
