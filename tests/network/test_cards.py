"""Real network processes: a newer card spreads from node to node; a card without the signatures it
needs is refused.
"""

import time
from pathlib import Path
from random import Random

import pytest

from protocol import wire
from protocol.addressing import question_seed
from protocol.admission import AdmissionRules, review
from protocol.card import Card, Refusal, narrowed, told
from protocol.messages import Reason, Round
from swarm_node.network.actions import Cards
from swarm_node.network.backend import Caller, Handler
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.process.keeper import CARDS_FILE, keep_cards, load_cards
from swarm_node.settings import NetworkConfig
from tests.cards import CHAIN, HOSTILE, KEYS, NETWORK, SWARM, signed, third
from tests.exchanges import address, identity
from tests.groups import group
from tests.network.members import Member, closing, config, hostile, received_since, rounds
from tests.waiting import until


def member(home: Path, peers: list[str], number: int, **options: object) -> Member:
    home.mkdir()
    assert isinstance(keep_cards(home / CARDS_FILE, CHAIN[:number], time.time()), Card)
    return Member(home, config(peers, **options), swarm=SWARM)


def number(home: Path) -> int:
    return len(load_cards(home / CARDS_FILE)[0])


def forging(protocol: str, honest: Handler) -> Handler:
    """Answers every request for cards with a third card that only its own signers have signed."""

    async def answer(caller: Caller, request: bytes) -> bytes:
        forged = wire.encode_cards([third(KEYS[3:5])])
        return forged if protocol == wire.CARD else await honest(caller, request)

    return answer


@pytest.mark.network
@pytest.mark.slow
def test_a_rotation_of_all_keys_walks_to_all_without_a_restart_beside_a_forger(
    tmp_path: Path,
) -> None:
    a = member(tmp_path / "a", [], 1)
    b = member(tmp_path / "b", a.addresses(), 1, backend="libp2p")
    c = member(tmp_path / "c", b.addresses(), 1)
    with closing(a, b, c), hostile(a.addresses(), forging, SWARM):
        rounds(
            [a, b, c],
            lambda: received_since(c, a.id, 0) and received_since(a, c.id, 0),
            what="sharing",
        )
        for newest in (2, 3, 4):  # no key of card 1 is left in card 4
            writer = (a, b, c)[newest % 3]
            keep_cards(writer.home / CARDS_FILE, CHAIN[:newest], time.time())
            everywhere = [newest] * 3
            until(
                lambda all=everywhere: [number(each.home) for each in (a, b, c)] == all,
                what=f"card {newest}",
            )
            if newest == 2:  # the forged card claims to follow card 2
                until(
                    lambda: any(
                        "manifest refused" in name
                        for each in (a, b, c)
                        for name in each.view()["counters"]
                    )
                )
        now = a.round
        rounds(
            [a, b, c],
            lambda: received_since(c, a.id, now) and received_since(a, c.id, now),
            what="sharing still",
        )
        assert [each.view()["processes"] for each in (a, b, c)] == [1, 1, 1]
        late = member(tmp_path / "late", c.addresses(), 1)  # this node was off for three cards
        with closing(late):
            until(lambda: number(late.home) == 4, what="catching up")


def test_each_hostile_reply_is_refused_with_its_reason_and_charged() -> None:
    for kind in (
        Refusal.FORGED,
        Refusal.TOO_FEW,
        Refusal.TOO_FEW_BEFORE,
        Refusal.GAP,
        Refusal.MALFORMED,
    ):
        exchange, peer = (
            Exchange(identity(0), SWARM, NetworkConfig(), Random(0), 0.0),
            identity(1).peer_id,
        )
        # Now the node knows the peer
        exchange.answer(Caller(peer, address(1)), wire.CARD, b"", 0.0)
        (call,) = exchange.go_by(CHAIN[:2], 1.0)
        assert exchange.replied(call.token, wire.encode_cards(HOSTILE[kind]()[2:]), 2.0) == []
        assert exchange.counters()[f"manifest refused: {told(kind)}"] == 1
        assert exchange.peers(2.0)[0].faults == {f"manifest refused: {told(kind)}": 1}


def test_a_node_asks_whoever_has_a_higher_number_and_refuses_other_networks() -> None:
    ahead, exchange = (
        Caller(identity(1).peer_id, address(1)),
        Exchange(identity(0), SWARM, NetworkConfig(), Random(0), 0),
    )
    # It has no card yet
    assert exchange.answer(ahead, wire.CARD, wire.encode_card_request(NETWORK, 0), 0.0) == b""
    exchange.go_by(CHAIN[:2], 0.0)
    for token in range(9):
        exchange.replied(token, wire.encode_cards([]), 0.0)
    assert exchange.answer(ahead, wire.CARD, wire.encode_card_request("a" * 26, 0), 1.0) == b""
    assert (
        wire.decode_cards(
            exchange.answer(ahead, wire.CARD, wire.encode_card_request(NETWORK, 1), 2.0)
        )
        == CHAIN[1:2]
    )
    assert not exchange.peers(2.0)[0].behind  # the peer may still take the card it was just given
    assert (
        wire.decode_cards(
            exchange.answer(ahead, wire.CARD, wire.encode_card_request(NETWORK, 1), 2.5)
        )
        == CHAIN[1:2]
    )
    assert exchange.peers(2.5)[0].behind
    assert (
        wire.decode_cards(
            exchange.answer(ahead, wire.CARD, wire.encode_card_request(NETWORK, 3), 3.0)
        )
        == []
    )
    assert not exchange.peers(3.0)[0].behind
    (call,) = [each for each in exchange.tick(3.5) if each.protocol == wire.CARD]
    assert call.peer == ahead.peer and wire.decode_card_request(call.request) == (NETWORK, 2)
    assert exchange.replied(call.token, wire.encode_cards(CHAIN[2:4]), 4.0) == [
        Cards(tuple(CHAIN[2:4]))
    ]
    exchange.answer(ahead, wire.CARD, wire.encode_card_request(NETWORK, 3), 8.0)
    (call,) = [each for each in exchange.tick(8.0) if each.protocol == wire.CARD]
    # The trainer has them already
    assert exchange.replied(call.token, wire.encode_cards(CHAIN[2:4]), 9.0) == []
    # Asked too often
    assert {len(exchange.answer(ahead, wire.CARD, call.request, 5.0)) for _ in range(9)} >= {0}


def test_no_group_beyond_the_card_is_admitted() -> None:
    peer, wide = (
        identity(1).peer_id,
        AdmissionRules(SWARM, identity(0).peer_id, knows=lambda asked: True),
    )
    rules = narrowed(wide, signed(1, "", 0, (), episodes=3, characters=5)[1])
    for reason, changed in (
        (None, {}),
        (Reason.OTHER_ENVIRONMENT, {"digest": "B" * 10 + "A"}),
        (Reason.UNKNOWN_QUESTION, {"config_id": "hard"}),
        (Reason.UNKNOWN_QUESTION, {"version": "2"}),
        (Reason.TOO_MANY_EPISODES, {"texts": "abcd"}),
        (Reason.EPISODE_TOO_LONG, {"texts": ("a", "123456")}),
    ):
        asked = group(peer, seed=question_seed(SWARM, peer, Round(0)), **changed)  # type: ignore[arg-type]
        assert (
            review(asked, wide) == asked and getattr(review(asked, rules), "reason", None) == reason
        )


def test_a_reply_holds_what_fits_and_no_request_of_another_size_is_read() -> None:
    large = [bytes([k]) * 16384 for k in range(5)]
    assert wire.decode_cards(wire.encode_cards(large)) == large[:3]
    assert {type(wire.decode_card_request(bytes(size))).__name__ for size in (0, 29, 31)} == {
        "Rejected"
    }
