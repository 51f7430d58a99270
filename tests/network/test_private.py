"""A private swarm: strangers get nothing, whoever has a code enters while the inviter is gone, the revoked are out."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from random import Random
from statistics import median
from time import process_time

import pytest

from protocol import codec, wire
from protocol.addressing import question_seed
from protocol.card import DAY, Card, Members, network_of, swarm_of
from protocol.identity import Identity
from protocol.member import MAX_LIFE, Refusal, certify, judge
from protocol.messages import PeerId, Round
from swarm_node.network.actions import Disconnect
from swarm_node.network.backend import Caller, CallFailed, Failure
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.process.keeper import CARDS_FILE, PROOF_FILE, keep_cards
from swarm_node.network.process.service import free_port
from swarm_node.network.transport.backends import make_backend
from swarm_node.network.transport.streams import StreamBackend, ask
from swarm_node.settings import NetworkConfig
from tests.cards import KEYS, TODAY, signed
from tests.exchanges import address, announced, identity
from tests.groups import group
from tests.network.members import Member, closing, config, received_since, rounds
from tests.waiting import until

ADMIT, CODE, OTHER = KEYS[5:8]
ENDS = TODAY + 30 * DAY
CALLS = int(os.environ.get("SWARM_NODE_CALLS", "600"))  # of strangers, in all


def cards(*revoked: PeerId, chain: int = 4) -> tuple[list[bytes], Card]:
    """Of one network; the second one revokes these."""
    members = Members(admit=(ADMIT.peer_id,), chain=chain, revoked=())
    first, card = signed(1, "", 0, KEYS[:2], members=members)
    if not revoked:
        return [first], card
    out = members.model_copy(update={"revoked": tuple(sorted(revoked))})
    second, newest = signed(2, network_of(card), 1, KEYS[1:3], members=out)
    return [first, second], newest


CHAIN, CARD = cards()
NETWORK, SWARM = network_of(CARD), swarm_of(CARD)


def proof(
    holder: Identity, *codes: Identity, first: Identity = ADMIT, ends: int = ENDS, network: str = NETWORK
) -> bytes:
    """A chain by the keys of codes."""
    chain, before = b"", first
    for each in (*codes, holder):
        chain, before = certify(chain, before, each.peer_id, ends, network), each
    return chain


def exchange(number: int, known: list[bytes] = CHAIN, own: bytes = b"") -> Exchange:
    who = identity(number)
    node = Exchange(who, SWARM, NetworkConfig(), Random(number), 0.0)
    node.go_by(known, 0.0, own or proof(who, CODE), TODAY)
    return node


ANN = identity(1)
NOT_ITS_FAULT = (Refusal.TOO_LONG, Refusal.UNKNOWN, Refusal.REVOKED, Refusal.TOO_LASTING, Refusal.ENDED)
REFUSED: list[tuple[Refusal, bytes]] = [
    (Refusal.FORGED, proof(ANN, CODE)[:-1] + b"\0"),
    (Refusal.FORGED, proof(ANN, CODE, network="a" * 26)),  # of another swarm with the same key
    (Refusal.UNKNOWN, proof(ANN, CODE, first=OTHER)),  # of another swarm
    (Refusal.NOT_OWN, proof(identity(2), CODE)),  # as it was overheard
    (Refusal.NOT_OWN, proof(CODE)),
    (Refusal.TOO_LONG, proof(ANN, CODE, OTHER, KEYS[0])),
    (Refusal.ENDED, proof(ANN, CODE, ends=TODAY - 2 * DAY)),
    (Refusal.TOO_LASTING, proof(ANN, CODE, ends=TODAY + MAX_LIFE + 2 * DAY)),
    (Refusal.REVOKED, proof(ANN, OTHER)),
    (Refusal.MALFORMED, proof(ANN, CODE)[:-1]),
]


@pytest.mark.parametrize(("why", "shown"), REFUSED)
def test_a_proof_that_does_not_hold_is_refused_for_its_reason_and_charged_where_its_bearer_is_to_blame(
    why: Refusal, shown: bytes
) -> None:
    node, caller = exchange(0, cards(OTHER.peer_id, chain=3)[0]), Caller(ANN.peer_id, address(1))
    assert node.answer(caller, wire.ENTER, shown, 1.0) == b"" and node.counters()[f"refused: {why}"] == 1
    blamed = [each.faults for each in node.peers(1.0) if each.faults]
    guilty = node._knowledge.reputation.of(ANN.peer_id).faults
    assert (guilty, blamed) == ({}, []) if why in NOT_ITS_FAULT else guilty == {why: 1}
    assert node.answer(caller, wire.HELLO, wire.encode_hello(SWARM), 2.0) == b""
    assert not node.members.replied(ANN.peer_id, shown, 3.0)  # nor is it asked anything


def requests(author: Identity) -> dict[str, bytes]:
    """What a member would be answered by this author."""
    groups = [group(author.peer_id, k, 0, seed=question_seed(SWARM, author.peer_id, Round(k))) for k in range(8)]
    tag = wire.swarm_tag(SWARM)
    return {
        wire.EXCHANGE: wire.encode_exchange(wire.ExchangeRequest(tag, 24, {}, b"")),
        wire.PULL: wire.encode_pull(tag, [codec.content_hash(codec.encode(each)) for each in groups]),
        wire.HELLO: wire.encode_hello(SWARM),
        wire.CARD: wire.encode_card_request(NETWORK, 0),
    }


def test_who_has_entered_is_answered_until_a_card_puts_it_out_and_nobody_before() -> None:
    node, ann, cem = exchange(0), Caller(ANN.peer_id, address(1)), Caller(identity(2).peer_id, address(2))
    asked = requests(identity(0))
    assert {node.answer(caller, each, asked[each], 1.0) for caller in (ann, cem) for each in asked} == {b""}
    assert node.counters()["refused: not a member"] == 8 and node.peers(1.0) == []  # nobody to call back
    for caller, shown in ((ann, proof(ANN, CODE)), (cem, proof(identity(2), OTHER))):
        assert judge(node.answer(caller, wire.ENTER, shown, 2.0), identity(0).peer_id, CARD, TODAY) == ENDS
        assert all(node.answer(caller, each, asked[each], 3.0) for each in asked)
    assert node.members.request(ANN.peer_id, 3.0) == proof(identity(0), CODE)  # it shows its own before it asks
    assert node.members.replied(ANN.peer_id, proof(ANN, CODE), 3.0) and node.members.request(ANN.peer_id, 3.0) == b""
    assert Disconnect(cem.peer) in node.go_by(cards(OTHER.peer_id)[0], 4.0, proof(identity(0), CODE), TODAY)
    assert [bool(node.answer(each, wire.CARD, asked[wire.CARD], 5.0)) for each in (ann, cem)] == [True, False]
    late = ENDS + DAY - TODAY + 4.0  # the grace is over
    assert [bool(node.answer(ann, wire.CARD, asked[wire.CARD], now)) for now in (late - 1.0, late)] == [True, False]
    assert node.members.request(ANN.peer_id, late) != b""


def test_what_a_revoked_author_announces_is_dropped_whoever_carries_it() -> None:
    node, ann = exchange(0), Caller(ANN.peer_id, address(1))
    node.answer(ann, wire.ENTER, proof(ANN, CODE), 1.0)
    told = wire.ExchangeRequest(wire.swarm_tag(SWARM), 0, {}, announced(ANN, 1, swarm=SWARM))
    assert node.answer(ann, wire.EXCHANGE, wire.encode_exchange(told), 1.0) and len(node.view) == 1
    node.go_by(cards(ANN.peer_id)[0], 2.0, proof(identity(0), CODE), TODAY)
    assert len(node.view) == 0 and node._knowledge.shuns(ANN.peer_id, 3.0)


def test_an_open_swarm_asks_nobody_to_enter() -> None:
    node = Exchange(identity(0), SWARM, NetworkConfig(), Random(0), 0.0)
    node.go_by([signed(1, "", 0, KEYS[:2])[0]], 0.0)
    assert node.members.request(ANN.peer_id, 0.0) == b"" and node.members.lets(ANN.peer_id, 0.0)
    assert node.answer(Caller(ANN.peer_id, address(1)), wire.HELLO, wire.encode_hello(SWARM), 1.0)


def test_the_longest_chain_is_judged_in_a_millisecond() -> None:
    shown, took = proof(ANN, CODE, OTHER, KEYS[0]), []
    for _ in range(200):
        began = process_time()
        assert judge(shown, ANN.peer_id, CARD, TODAY) == ENDS
        took.append(process_time() - began)
    sys.stdout.write(f"four certificates: median {1000 * median(took):.2f} ms of CPU\n")
    assert median(took) < 0.003  # of any machine; the page has the measured figure


def joined(home: Path, known: list[bytes], *codes: Identity, **options: object) -> Member:
    who = Identity.create()
    home.mkdir()
    keep_cards(home / CARDS_FILE, known, TODAY)
    (home / PROOF_FILE).write_bytes(proof(who, *codes))
    return Member(home, config(**options), who, SWARM)


@pytest.mark.network
@pytest.mark.slow
def test_members_share_over_both_backends_and_the_revoked_one_is_out_without_a_restart(tmp_path: Path) -> None:
    a = joined(tmp_path / "a", CHAIN, CODE)
    b = joined(tmp_path / "b", CHAIN, CODE, peers=a.addresses(), backend="libp2p")
    c = joined(tmp_path / "c", CHAIN, OTHER, peers=a.addresses())
    with closing(a, b, c):
        pairs = [(x, y) for x in (a, b, c) for y in (a, b, c) if x is not y]
        rounds([a, b, c], lambda: all(received_since(x, y.id, 0) for x, y in pairs), what="sharing")
        keep_cards(a.home / CARDS_FILE, cards(c.id)[0], TODAY)
        until(lambda: all("members put out" in each.view()["counters"] for each in (a, b)), what="the next card")
        now = max(each.round for each in (a, b, c))
        rounds([a, b, c], lambda: received_since(a, b.id, now) and received_since(b, a.id, now), what="sharing still")
        assert not any(received_since(each, c.id, now) for each in (a, b)) and not received_since(c, a.id, now)
        assert [each.view()["processes"] for each in (a, b, c)] == [1, 1, 1]


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["hivemind", "libp2p"])
def test_strangers_who_call_every_stream_of_a_daemon_get_no_address_announcement_or_group(
    tmp_path: Path, backend: str
) -> None:
    node = joined(tmp_path / "node", CHAIN, CODE, backend=backend)
    with closing(node):
        other = joined(tmp_path / "other", CHAIN, CODE, peers=node.addresses())
        with closing(other):
            rounds([node, other], lambda: received_since(other, node.id, 0), what="sharing")
            where, asked = node.addresses(), {**requests(node.identity), wire.PUNCH: b"\0", wire.ENTER: b"\0"}
            told = asyncio.run(called(where, asked, 6, lambda who: proof(who, CODE)))
            assert {*told} == {"calls", wire.EXCHANGE, wire.PULL, wire.HELLO, wire.CARD}  # of a member
            for shown in (proof(other.identity, CODE), proof(node.identity, CODE)):  # overheard: its bearer is banned
                assert {*asyncio.run(called(where, asked | {wire.ENTER: shown}, 60))} == {"calls"}
            told = asyncio.run(called(where, asked, CALLS, strangers=4))
            counted = node.view()["counters"]
            assert told == {"calls": CALLS} and counted["refused: not a member"] > CALLS / 2
            sys.stdout.write(f"{backend}: {CALLS} calls, 0 bytes, {counted['refused: not a member']} unread\n")


async def called(
    where: list[str],
    asked: Mapping[str, bytes],
    calls: int,
    shows: Callable[[Identity], bytes] = lambda who: b"",
    strangers: int = 1,
) -> Counter[str]:
    """Bytes answered, by stream: so many calls of every stream, beside each other, on as few streams as honest peers
    have, and by strangers who first show a proof or none."""
    told = Counter[str]()

    async def come() -> None:
        who = Identity.create()
        backend = make_backend(config(port=free_port()), who)
        assert isinstance(backend, StreamBackend)
        await backend.start({}, {})
        try:
            peer = await backend.dial(where, 10.0)
            if shown := shows(who):
                assert await backend.call(peer, wire.ENTER, shown, 1000, 10.0)
            streams = islice(cycle(asked), min(48, calls))
            await asyncio.gather(*(call(backend, peer, name) for name in streams))
        finally:
            await backend.close()

    async def call(backend: StreamBackend, peer: PeerId, name: str) -> None:
        with suppress(CallFailed):
            stream = await backend.open_stream(peer, name)
            while told["calls"] < calls:
                told["calls"] += 1
                try:
                    told[name] += len(await ask(stream, asked[name], 1 << 20))
                except CallFailed as error:
                    if error.failure != Failure.REFUSED:
                        told["calls"] -= 1  # hung up on, or too many streams: that was no call
                        raise

    async with asyncio.timeout(60 + calls):
        await asyncio.gather(*(come() for _ in range(strangers)))
    return told
