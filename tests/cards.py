"""Chains of cards that are in force now, and hostile ones."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from protocol.card import DAY, Card, Refusal, Signed, Task, network_id, sign, swarm_of
from protocol.codec import encode
from protocol.identity import Identity
from tests.groups import DIGEST, KIND

KEYS = [Identity.from_seed_bytes(bytes([k]) * 32) for k in range(1, 10)]
DOOR = f"/ip4/203.0.113.7/tcp/31330/p2p/{KEYS[0].peer_id}"
TODAY = int(time.time())


def signed(
    number: int, network: str, first: int, by: Sequence[Identity], **said: Any
) -> tuple[bytes, Card]:
    """A card whose three signers begin with KEYS[first]."""
    signers = tuple(sorted(each.peer_id for each in KEYS[first : first + 3]))
    fields = {
        "format": 1,
        "name": "friends",
        "network": network,
        "number": number,
        "signers": signers,
        "threshold": 2,
    }
    fields |= {
        "issued": TODAY,
        "expires": TODAY + 90 * DAY,
        "bootstrap": (DOOR,),
        "notes": "",
        "episodes": 64,
    }
    fields |= {"characters": 16384, "tasks": (Task(**KIND, digest=DIGEST),)}
    card = Card(**fields | said)  # type: ignore[arg-type]
    return encode(reduce(sign, by, Signed(card=card, signatures={}))), card


def chain(count: int, **said: Any) -> list[bytes]:
    """Cards of one network. Each replaces the oldest of three keys; the two older keys of a card
    sign it.
    """
    cards: list[bytes] = []
    network = ""
    for number in range(1, count + 1):
        data, card = signed(number, network, number - 1, KEYS[number - 1 : number + 1], **said)
        cards.append(data)
        network = network_id(card)
    return cards


CHAIN = chain(5)
CARD = Signed.model_validate_json(CHAIN[0]).card
NETWORK, SWARM = network_id(CARD), swarm_of(CARD)


def third(by: Sequence[Identity], number: int = 3, network: str = NETWORK, **said: Any) -> bytes:
    """A card to put in place of the third one, signed by these keys."""
    return signed(number, network, 2, by, **said)[0]


OLD = TODAY - 100 * DAY
HOSTILE: Mapping[Refusal, Callable[[], list[bytes]]] = {  # chains that a home with card 2 refuses
    Refusal.FORGED: lambda: [*CHAIN[:2], third((KEYS[2], KEYS[8]))],
    Refusal.TOO_FEW: lambda: [*CHAIN[:2], third((KEYS[1], KEYS[2]))],
    Refusal.TOO_FEW_BEFORE: lambda: [*CHAIN[:2], third((KEYS[3], KEYS[4]))],
    Refusal.ROLLED_BACK: lambda: CHAIN[:1],
    Refusal.GAP: lambda: [*CHAIN[:2], CHAIN[3]],
    Refusal.MALFORMED: lambda: [*CHAIN[:2], CHAIN[2][:-40]],
    Refusal.EXPIRED: lambda: [*CHAIN[:2], third(KEYS[2:4], issued=OLD, expires=OLD + 2 * DAY)],
    Refusal.OTHER_NETWORK: lambda: chain(3, name="others"),
    Refusal.CONFLICT: lambda: [CHAIN[0], signed(2, NETWORK, 1, KEYS[1:3], notes="x")[0], CHAIN[2]],
}
