"""A private swarm: strangers get nothing, a code lets its holder in while the inviter is gone, the
revoked are out.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from protocol import wire
from protocol.card import DAY, Members, network_id, swarm_of
from protocol.identity import Identity
from protocol.member import MAX_LIFE, ProofFault, certify, judge
from protocol.messages import PeerId, Round
from swarm_node.network.actions import Disconnect
from swarm_node.network.backend import Caller, CallFailed, Failure
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.process.keeper import CARDS_FILE, PROOF_FILE, keep_cards
from swarm_node.network.transport.libraries import make_backend
from swarm_node.network.transport.streams import ask
from swarm_node.settings import NetworkConfig
from tests.cards import KEYS, TODAY, signed
from tests.exchanges import address, identity
from tests.network.members import Member, closing, config, received_since, rounds
from tests.waiting import until

ADMIT, CODE, OTHER = KEYS[5:8]
ENDS = TODAY + 30 * DAY
CALLS = int(os.environ.get("SWARM_NODE_CALLS", "600"))  # calls of strangers, in all


MEMBERS = Members(admit=(ADMIT.peer_id,), chain=4, revoked=())
FIRST, CARD = signed(1, "", 0, KEYS[:2], members=MEMBERS)
NETWORK, SWARM = network_id(CARD), swarm_of(CARD)
SAID = wire.encode_hello(SWARM)


def cards(*revoked: PeerId, chain: int = 4) -> list[bytes]:
    second = MEMBERS.model_copy(update={"revoked": tuple(sorted(revoked)), "chain": chain})
    return [FIRST, signed(2, NETWORK, 1, KEYS[1:3], members=second)[0]]


def proof(
    holder: Identity, *codes: Identity, first: Identity = ADMIT, ends: int = ENDS, of: str = NETWORK
) -> bytes:
    chain, before = b"", first
    for each in (*codes, holder):
        chain, before = certify(chain, before, each.peer_id, ends, of), each
    return chain


def exchange(number: int, known: Sequence[bytes] = (FIRST,)) -> Exchange:
    node = Exchange(identity(number), SWARM, NetworkConfig(), Random(number), 0.0)
    node.go_by(known, 0.0, proof(identity(number), CODE), TODAY)
    return node


ANN = identity(1)
BLAMED = (ProofFault.FORGED, ProofFault.NOT_OWN, ProofFault.MALFORMED)
REFUSED: list[tuple[ProofFault, bytes]] = [
    # Flipped: one in 16 ends with 0
    (ProofFault.FORGED, (honest := proof(ANN, CODE))[:-1] + bytes([honest[-1] ^ 1])),
    (ProofFault.FORGED, proof(ANN, CODE, of="a" * 26)),  # of another swarm with the same key
    (ProofFault.UNKNOWN, proof(ANN, CODE, first=OTHER)),  # of another swarm
    (ProofFault.NOT_OWN, proof(identity(2), CODE)),  # the proof of another node, overheard
    (ProofFault.TOO_LONG, proof(ANN, CODE, OTHER, KEYS[0])),
    (ProofFault.ENDED, proof(ANN, CODE, ends=TODAY - 2 * DAY)),
    (ProofFault.TOO_LASTING, proof(ANN, CODE, ends=TODAY + MAX_LIFE + 2 * DAY)),
    (ProofFault.REVOKED, proof(ANN, OTHER)),
    (ProofFault.MALFORMED, proof(ANN, CODE)[:-1]),
]


@pytest.mark.parametrize(("why", "shown"), REFUSED)
def test_a_bad_proof_is_refused_for_its_reason_and_charged_where_its_bearer_is_to_blame(
    why: ProofFault, shown: bytes
) -> None:
    node, caller = exchange(0, cards(OTHER.peer_id, chain=3)), Caller(ANN.peer_id, address(1))
    assert (
        node.answer(caller, wire.ENTER, shown, 1.0) == b""
        and node.counters()[f"refused: {why}"] == 1
    )
    assert node._knowledge.reputation.of(ANN.peer_id).faults == ({why: 1} if why in BLAMED else {})
    assert node.answer(caller, wire.HELLO, SAID, 2.0) == b""
    # Nor does the node ask this peer anything
    assert not node.members.replied(ANN.peer_id, shown, 3.0)


def requests(group: bytes = bytes(32)) -> dict[str, bytes]:
    tag = wire.swarm_tag(SWARM)
    asked = {
        wire.EXCHANGE: wire.encode_exchange(wire.ExchangeRequest(tag, 24, {}, b"")),
        wire.HELLO: SAID,
    }
    return asked | {
        wire.PULL: wire.encode_pull(tag, [group]),
        wire.CARD: wire.encode_card_request(NETWORK, 0),
    }


def test_who_has_entered_is_answered_until_a_card_puts_it_out_and_nobody_before() -> None:
    node, ann, cem = (
        exchange(0),
        Caller(ANN.peer_id, address(1)),
        Caller(identity(2).peer_id, address(2)),
    )
    asked, own = requests(), proof(identity(0), CODE)
    assert {
        node.answer(caller, each, asked[each], 1.0) for caller in (ann, cem) for each in asked
    } == {b""}
    # Nobody to call back
    assert node.counters()["refused: not a member"] == 8 and node.peers(1.0) == []
    for caller, shown in ((ann, proof(ANN, CODE)), (cem, proof(identity(2), OTHER))):
        assert node.answer(caller, wire.ENTER, shown, 2.0) == own
        assert all(node.answer(caller, each, asked[each], 3.0) for each in asked)
    # The node shows its own proof before it asks
    assert node.members.request(ANN.peer_id, 3.0) == own
    assert (
        node.members.replied(ANN.peer_id, proof(ANN, CODE), 3.0)
        and node.members.request(ANN.peer_id, 3.0) == b""
    )
    (other := exchange(2)).publish([], Round(0), 0, 0.0)
    told = wire.ExchangeRequest(
        wire.swarm_tag(SWARM), 0, {}, other._knowledge.local_announcement.sealed
    )
    assert node.answer(cem, wire.EXCHANGE, wire.encode_exchange(told), 3.0) and len(node.view) == 1
    assert Disconnect(cem.peer) in node.go_by(cards(OTHER.peer_id, cem.peer), 4.0, own, TODAY)
    assert len(node.view) == 0 and not node.lets(cem.peer, address(2))
    assert [bool(node.answer(each, wire.CARD, asked[wire.CARD], 5.0)) for each in (ann, cem)] == [
        True,
        False,
    ]
    late = ENDS + DAY - TODAY + 4.0  # the grace is over
    assert [
        bool(node.answer(ann, wire.CARD, asked[wire.CARD], now)) for now in (late - 1.0, late)
    ] == [True, False]


def test_the_longest_chain_is_taken() -> None:
    assert judge(proof(ANN, CODE, OTHER, KEYS[0]), ANN.peer_id, CARD, TODAY) == ENDS


def joined(home: Path, code: Identity, **options: object) -> Member:
    who = Identity.create()
    home.mkdir()
    keep_cards(home / CARDS_FILE, [FIRST], TODAY)
    (home / PROOF_FILE).write_bytes(proof(who, code))
    return Member(home, config(**options), who, SWARM)


@pytest.mark.network
@pytest.mark.slow
def test_members_share_over_both_backends_and_the_revoked_one_is_out_without_a_restart(
    tmp_path: Path,
) -> None:
    a = joined(tmp_path / "a", CODE)
    b = joined(tmp_path / "b", CODE, peers=a.addresses(), backend="libp2p")
    c = joined(tmp_path / "c", OTHER, peers=a.addresses())
    with closing(a, b, c):
        pairs = [*permutations((a, b, c), 2)]
        rounds([a, b, c], lambda: all(received_since(x, y.id, 0) for x, y in pairs), what="sharing")
        keep_cards(a.home / CARDS_FILE, cards(c.id), TODAY)
        until(
            lambda: all("members put out" in each.view()["counters"] for each in (a, b)),
            what="the next card",
        )
        now = max(each.round for each in (a, b, c))
        rounds(
            [a, b, c],
            lambda: received_since(a, b.id, now) and received_since(b, a.id, now),
            what="sharing still",
        )
        assert not any(received_since(each, c.id, now) for each in (a, b)) and not received_since(
            c, a.id, now
        )
        assert [each.view()["processes"] for each in (a, b, c)] == [1, 1, 1]


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["hivemind", "libp2p"])
def test_strangers_who_call_every_stream_get_no_address_announcement_or_group(
    tmp_path: Path, backend: str
) -> None:
    node = joined(tmp_path / "node", CODE, backend=backend)
    other = joined(tmp_path / "other", CODE, peers=node.addresses())
    with closing(node, other):
        rounds([node, other], lambda: received_since(other, node.id, 0), what="sharing")
        where, asked = (
            node.addresses(),
            {**requests(other.received[0].id), wire.PUNCH: b"\0", wire.ENTER: b"\0"},
        )
        # Overheard: its bearer is banned
        for shown in (proof(other.identity, CODE), proof(node.identity, CODE)):
            assert not {
                *asyncio.run(called(where, asked | {wire.ENTER: shown}, CALLS, strangers=1))
            } - {"calls"}
        told, counted = (
            asyncio.run(called(where, asked, CALLS, strangers=4)),
            node.view()["counters"],
        )
        assert (
            {*told} == {"calls"}
            and told["calls"] >= CALLS
            and counted["refused: not a member"] > CALLS / 2
        )
        sys.stdout.write(f"{backend}: {told['calls']} calls, 0 bytes\n")


async def called(
    where: list[str], asked: Mapping[str, bytes], calls: int, strangers: int
) -> Counter[str]:
    """Bytes answered to strangers, by stream. They call all streams at once, over and over, until
    the node hangs up.
    """
    told = Counter[str]()

    async def call(backend: Any, peer: PeerId, name: str) -> None:
        with suppress(CallFailed):
            stream = await backend.open_stream(peer, name)
            while told["calls"] < calls:
                try:
                    told[name] += len(await ask(stream, asked[name], 1 << 20))
                except CallFailed as error:
                    if error.failure != Failure.REFUSED:
                        raise
                told["calls"] += 1

    async def come() -> None:
        backend = make_backend(config(), Identity.create())
        await backend.start({}, {})
        try:
            peer = await backend.dial(where, 10.0)
            await asyncio.gather(*(call(backend, peer, name) for name in [*asked] * 8))
        finally:
            await backend.close()

    async with asyncio.timeout(60 + calls):
        await asyncio.gather(*(come() for _ in range(strangers)))
    return told
