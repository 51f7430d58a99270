"""Peers that lie, flood, crowd and replay achieve little, and honest nodes go on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.studies.simulated_exchange import Answering
from protocol import codec, limits, wire
from protocol.admission import AdmissionRules
from protocol.identity import verify
from protocol.messages import PeerId, Question, Reason, Round
from swarm_node.network.actions import CallPeer, Disconnect
from swarm_node.network.backend import Caller, Failure
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.exchange.knowledge import PeerView
from swarm_node.network.exchange.view import MAX_AGE
from swarm_node.rollouts.groups import HUNG
from swarm_node.settings import NetworkConfig
from tests.exchanges import SWARM, Swarm, address, announced, identity, key_of, sealed_groups

TAG = wire.swarm_tag(SWARM)


@dataclass
class Scripted:
    """A peer that replies by a script."""

    answer: Callable[[Caller, str, bytes, float], bytes]


def node(number: int = 0) -> Exchange:
    return Exchange(identity(number), SWARM, NetworkConfig(), Random(number), 0.0)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[PeerId]:
    """The authors whose signatures were checked, which is the costly part."""
    authors = []

    def noted(author: PeerId, *rest: bytes) -> bool:
        authors.append(author)
        return verify(author, *rest)

    monkeypatch.setattr(codec, "verify", noted)
    return authors


def caller(number: int, network: int | None = None) -> Caller:
    return Caller(identity(number).peer_id, address(number, network))


def tell(exchange: Exchange, who: Caller, sealed: bytes, now: float, limit: int = 24) -> bytes:
    request = wire.ExchangeRequest(TAG, limit, {}, sealed)
    return exchange.answer(who, wire.EXCHANGE, wire.encode_exchange(request), now)


def serve(items: Sequence[bytes], groups: dict[bytes, bytes], age: int = 0) -> Answering:
    """A peer that names these announcements, whatever was asked, and serves these bytes under these
    hashes.
    """

    def answer(_: Caller, protocol: str, request: bytes, now: float) -> bytes:
        if protocol == wire.EXCHANGE:
            return wire.encode_items([wire.CarriedAnnouncement(age, item) for item in items])
        decoded = wire.decode_pull(request)
        assert isinstance(decoded, tuple)
        return wire.encode_groups([groups.get(key, b"") for key in decoded[1]])

    return Scripted(answer)


def calls_of(exchange: Exchange, now: float) -> list[CallPeer]:
    return [action for action in exchange.tick(now) if isinstance(action, CallPeer)]


def ask(exchange: Exchange, peer: PeerId, items: Sequence[bytes], now: float, age: int = 0) -> None:
    """Let `exchange` call this peer, and get these announcements."""
    exchange.learned(peer, ["/ip4/30.0.0.1/tcp/1"])
    (call,) = [call for call in calls_of(exchange, now) if call.peer == peer]
    exchange.replied(
        call.token, wire.encode_items([wire.CarriedAnnouncement(age, item) for item in items]), now
    )


def test_who_serves_other_bytes_is_banned_for_an_hour_and_the_group_comes_from_another() -> None:
    swarm = Swarm(every=1e9)
    victim, exchange = swarm.add(want=0, groups=0), swarm.exchanges[0]
    author, holder, liar = identity(10), identity(11), identity(12)
    (group,) = sealed_groups(author, 0, 1)
    hint = codec.to_text(key_of(group)[: limits.HOLDING_BYTES])
    items = [announced(author, 1, [group])]
    for who in (holder, liar):
        items.append(announced(who, 1, held=[hint]))
    swarm.hostile(12, serve(items, {key_of(group): sealed_groups(author, 1, 1)[0]}))
    swarm.hostile(11, serve([], {key_of(group): group}))  # the author itself cannot be reached
    exchange.learned(liar.peer_id, [address(12)])
    for _ in range(20):  # until the liar happens to be called
        swarm.world.perform(victim, exchange.publish([], Round(0), 1, swarm.world.now))
        swarm.run(30)
        if victim.delivered:
            break
    assert [(d.content_hash, d.source) for _, d in victim.delivered] == [
        (key_of(group), holder.peer_id)
    ]
    if liar.peer_id in victim.hung_up:
        assert exchange.counters()["pull: hash mismatch"] == 1


def pull_from_its_author(
    count: int, knows: Callable[[Question], bool], verdict: str = ""
) -> tuple[Swarm, PeerView, list[Reason], list[bytes]]:
    """A victim that knows these questions pulls for three rounds, and its trainer gives each group
    this verdict. Returns the swarm, the victim's view of the author, why groups were refused, and
    the groups that it serves.
    """
    swarm = Swarm(every=1e9)
    rules = AdmissionRules(SWARM, identity(0).peer_id, knows=knows)
    victim, exchange = swarm.add(want=0, groups=0, rules=rules), swarm.exchanges[0]
    # Of questions 0, 1, ...
    author, refused, groups = identity(10), [], sealed_groups(identity(10), 0, count)
    swarm.hostile(
        10,
        serve([announced(author, 1, groups)], {key_of(envelope): envelope for envelope in groups}),
    )
    swarm.world.on_refusal = lambda peer, refusal: refused.append(refusal.reason)
    exchange.learned(author.peer_id, [address(10)])
    for _ in range(3):
        swarm.world.perform(victim, exchange.publish([], Round(0), 1, swarm.world.now))
        swarm.run(30)
        for _, delivery in victim.delivered if verdict else ():  # what its trainer finds
            exchange.verdict(delivery.group.author, delivery.content_hash, verdict, swarm.world.now)
    (view,) = exchange.peers(swarm.world.now)
    request = wire.encode_pull(TAG, list(map(key_of, groups)))
    served = wire.decode_groups(
        exchange.answer(caller(9), wire.PULL, request, swarm.world.now), count
    )
    return swarm, view, refused, served


def test_a_genuine_group_that_is_not_admitted_is_counted_and_charged_and_not_passed_on() -> None:
    swarm, view, refused, served = pull_from_its_author(2, lambda question: question.index > 0)
    assert [delivery.group.question.index for _, delivery in swarm.members[0].delivered] == [1]
    assert (refused, served) == (
        [Reason.UNKNOWN_QUESTION],
        [b"", sealed_groups(identity(10), 0, 2)[1]],
    )
    assert 0.5 < view.guilt <= 1.0


def test_groups_of_an_environment_that_does_otherwise_are_left_and_nobody_is_charged() -> None:
    swarm, view, refused, served = pull_from_its_author(
        3, lambda question: True, "other environment"
    )
    assert (len(swarm.members[0].delivered), refused) == (1, [Reason.OTHER_ENVIRONMENT] * 2)
    assert (view.guilt, view.faults, view.success, served) == (0.0, {}, 1.0, [b""] * 3)
    assert view.asks == "chain_sum/easy of reasoning_gym 0.1.25 (other environment)"
    assert swarm.exchanges[0].counters()["other environment: chain_sum/easy"] == 3


def served_by_the_last(author: int, served: Callable[[bytes], bytes]) -> tuple[Swarm, PeerId]:
    """Member 12 announces a group of this author as its own, and serves these bytes in its place.
    Returns the swarm with the victim, and member 12.
    """
    swarm = Swarm(every=1e9)
    victim, exchange = swarm.add(want=0, groups=0), swarm.exchanges[0]
    peer = identity(12)
    (group,) = sealed_groups(identity(author), 0, 1)
    swarm.hostile(12, serve([announced(peer, 1, [group])], {key_of(group): served(group)}))
    exchange.learned(peer.peer_id, [address(12)])
    swarm.run(3)
    swarm.world.perform(victim, exchange.publish([], Round(0), 4, swarm.world.now))
    swarm.run(10)
    return swarm, peer.peer_id


# What is counted -> author of the group, and what is served
LIES: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "pull: hash mismatch": (12, lambda group: group[:-1] + b" "),
    "pull bad signature": (12, lambda group: bytes(64) + group[64:]),  # of the peer that serves it
    "pull: group of another author": (13, lambda group: group),  # the author is not to blame
}


@pytest.mark.parametrize("counted", LIES)
def test_a_lie_about_a_group_bans_who_told_it_and_is_not_forgiven_within_the_hour(
    counted: str,
) -> None:
    swarm, liar = served_by_the_last(*LIES[counted])
    (victim,), (exchange,), banned = swarm.members, swarm.exchanges, swarm.world.now
    assert victim.hung_up == [liar] and not victim.delivered
    assert exchange.counters()[counted] == 1
    assert [view.state for view in exchange.peers(banned) if view.peer == liar] == ["banned"]
    assert tell(exchange, caller(12), announced(identity(12), 2), banned + 3500) == b""
    assert not [call for call in calls_of(exchange, banned + 3500) if call.peer == liar]
    assert tell(exchange, caller(12), announced(identity(12), 2), banned + 3700) != b""


def test_replayed_stale_and_runaway_numbers_are_no_news() -> None:
    exchange, author = node(), identity(5)
    known, received = "announcements known already", "announcements received"
    assert tell(exchange, caller(5), announced(author, 100), 0.0)
    for seq in (100, 99, 0):
        assert tell(exchange, caller(5), announced(author, seq), 1.0)
    assert (exchange.counters()[received], exchange.counters()[known]) == (1, 3)
    tell(exchange, caller(5), announced(author, 101 + limits.MAX_SEQUENCE_JUMP), 2.0)
    assert exchange.counters()["announcements with a number far too high"] == 1
    tell(exchange, caller(5), announced(author, 101), 3.0)
    assert exchange.counters()[received] == 2


def test_numbers_and_bans_survive_a_restart() -> None:
    before, after, banned = node(), node(), identity(5).peer_id
    tell(before, caller(6), announced(identity(6), 100), 0.0)
    for _ in range(2):
        before.verdict(banned, bytes(32), Reason.WRONG_SEED, 0.0)
    assert Disconnect(banned) in before.tick(600.0)
    after.restore(before.state(), 0.0)
    tell(after, caller(6), announced(identity(6), 100), 1.0)
    assert (
        after.counters()["announcements known already"] == 1
        and tell(after, caller(5), b"", 2900.0) == b""
    )
    assert tell(after, caller(5), b"", 3100.0) != b""


def test_nobody_announces_in_the_name_of_another() -> None:
    exchange, author, forger = node(), identity(5), identity(6)
    forged = announced(author, 1)
    payload = forged[64:]
    forged = forger.sign(b"swarm-node/2/announcement\0" + SWARM.encode() + b"\0", payload) + payload
    # Not read, genuine or not: the caller is not the author
    for pushed in (forged, announced(author, 1)):
        assert tell(exchange, caller(6), pushed, 0.0) == b"" and len(exchange.view) == 0
    assert tell(exchange, caller(5), forged, 0.0) == b""  # from its author, with a forged signature
    assert exchange.counters()["announcement bad signature"] == 1
    ask(exchange, forger.peer_id, [forged, announced(identity(7), 1)], 1.0)  # carried by the forger
    assert len(exchange.view) == 0  # nothing after a forgery is read
    assert exchange.counters()["announcement bad signature"] == 2


def test_who_keeps_carrying_forgeries_is_banned() -> None:
    exchange, forger = node(), identity(6)
    exchange.learned(forger.peer_id, ["/ip4/30.0.0.1/tcp/1"])
    for second in range(0, 60, 3):
        for call in calls_of(exchange, float(second)):
            assert call.peer == forger.peer_id
            exchange.replied(
                call.token,
                wire.encode_items([wire.CarriedAnnouncement(0, bytes(200))]),
                float(second),
            )
    assert exchange.peers(60.0)[0].state == "banned"


def test_more_than_was_asked_for_is_refused() -> None:
    exchange = node()
    friends = [announced(identity(100 + number), 1) for number in range(25)]
    exchange.learned(identity(6).peer_id, ["/ip4/30.0.0.1/tcp/1"])
    (call,) = calls_of(exchange, 0.0)
    body = b"".join(
        wire.encode_items([wire.CarriedAnnouncement(0, friend)])[1:] for friend in friends
    )
    exchange.replied(call.token, bytes([25]) + body, 0.0)
    assert len(exchange.view) == 0 and exchange.counters()["exchange malformed"] == 1


def test_announcements_of_the_dead_expire_although_some_call_them_young() -> None:
    exchange, dead = node(), announced(identity(5), 1)
    ask(exchange, identity(6).peer_id, [dead], 0.0, age=int(MAX_AGE * 10) - 50)
    assert len(exchange.view) == 1
    exchange.tick(6.0)
    assert len(exchange.view) == 0
    ask(exchange, identity(7).peer_id, [dead], 7.0, age=0)
    assert len(exchange.view) == 0


def test_a_flood_costs_no_verification_and_no_honest_answer(verified: list[PeerId]) -> None:
    exchange = node()
    flood = [announced(identity(5), seq) for seq in range(1, 40)]
    answered = 0
    for message in range(10_000):  # a thousand a second
        answered += bool(tell(exchange, caller(5), flood[message % len(flood)], message / 1000))
    assert answered <= 20 + 1 and 0 < len(verified) <= answered
    assert exchange.counters()["refused: too often"] == 10_000 - answered
    assert tell(exchange, caller(6), announced(identity(6), 1), 10.0)


@pytest.mark.slow
def test_fifty_thousand_junk_requests_of_as_many_peers_are_forgotten(
    verified: list[PeerId],
) -> None:
    exchange, rng = node(), Random(0)
    junk = [rng.randbytes(size) for size in (0, 1, 8, 40, 500, 4096, 5000)]
    for number in range(50_000):
        who = Caller(
            PeerId(f"12D3KooW{number:044}"), f"/ip4/{20 + number % 150}.{number % 251}.1.1/tcp/1"
        )
        exchange.answer(
            who, (wire.EXCHANGE, wire.PULL, wire.HELLO)[number % 3], junk[number % 7], number / 1000
        )
    assert not verified
    assert len(exchange.peers(50.0)) <= 512 and len(exchange.view) == 0
    assert tell(exchange, caller(6), announced(identity(6), 1), 60.0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*wire.NAMES, "/unknown"]), st.binary(max_size=300), st.booleans()
        )
    )
)
def test_no_bytes_raise(messages: list[tuple[str, bytes, bool]]) -> None:
    exchange, now = node(), 0.0
    exchange.learned(identity(1).peer_id, ["nonsense"])
    for protocol, data, tagged in messages:
        now += 1.0
        assert (
            len(exchange.answer(caller(1), protocol, TAG + data if tagged else data, now)) <= 2**20
        )
        for call in calls_of(exchange, now):
            exchange.replied(call.token, data, now)


@pytest.mark.slow
def test_a_thousand_identities_of_one_network_get_the_share_of_one() -> None:
    """They call as often as they may, always with new announcements. Twelve honest nodes have
    networks of their own.
    """
    swarm = Swarm().add_many(12)
    crowd = {identity(number).peer_id for number in range(1000, 2000)}
    rng = Random(0)

    def press(second: int) -> None:
        for number in rng.sample(range(1000, 2000), 10):
            own = announced(identity(number), second, sealed_groups(identity(number), second, 1))
            groups.update(
                {key_of(group): group for group in sealed_groups(identity(number), second, 1)}
            )
            for exchange in swarm.exchanges:
                tell(exchange, caller(number, network=199), own, swarm.world.now)

    groups: dict[bytes, bytes] = {}
    for number in range(1000, 2000):
        swarm.hostile(number, serve([], groups), network=199)
    swarm.run(30)
    for second in range(60):
        press(second)
        swarm.run(1)
    pulled = [group.author for member in swarm.members for group in swarm.pulled(member, 30.0)]
    assert len(pulled) >= 200
    # 4 of 15 in the draw, all of them eager
    assert sum(author in crowd for author in pulled) / len(pulled) <= 0.4
    for exchange in swarm.exchanges:
        honest = [entry for entry in exchange.view if entry.announcement.author not in crowd]
        assert len(honest) == 11


@pytest.mark.slow
def test_many_hostile_networks_do_not_cut_a_node_off() -> None:
    """Two hundred identities in as many networks call all the time, and name only each other when
    asked.
    """
    swarm = Swarm().add_many(10)
    swarm.run(60)
    friends = [identity(number) for number in range(1000, 1200)]
    known = {friend.peer_id for friend in friends}
    newest: dict[int, bytes] = {}
    rng = Random(0)

    def answer(_: Caller, protocol: str, request: bytes, now: float) -> bytes:
        if protocol != wire.EXCHANGE:
            return b""
        decoded = wire.decode_exchange(request)
        limit = decoded.limit if isinstance(decoded, wire.ExchangeRequest) else 0
        return wire.encode_items(
            [wire.CarriedAnnouncement(0, item) for item in rng.sample(list(newest.values()), limit)]
        )

    for number in range(1000, 1200):
        swarm.hostile(number, Scripted(answer))
        newest[number] = announced(identity(number), 0)
    victim, start = swarm.exchanges[0], swarm.world.now
    for second in range(1, 120):
        for number in rng.sample(range(1000, 1200), 15):
            newest[number] = announced(identity(number), second)
            tell(victim, caller(number), newest[number], swarm.world.now)
        swarm.run(1)
    honest = [entry for entry in victim.view if entry.announcement.author not in known]
    assert len(honest) >= 4
    authors = {group.author for group in swarm.pulled(swarm.members[0], start + 60)}
    assert authors - known


def test_a_node_of_another_swarm_is_told_apart_by_name() -> None:
    swarm = Swarm()
    swarm.add()
    swarm.add(swarm="another")
    swarm.run(20)
    mine, theirs = swarm.exchanges
    assert len(mine.view) == len(theirs.view) == 0
    assert [peer.note for peer in theirs.peers(20.0)] == [
        "is in swarm test, this node is in another"
    ]
    assert [peer.note for peer in mine.peers(20.0)] == ["is in swarm another, this node is in test"]
    assert (mine.strangers(), theirs.strangers()) == (1, 1)
    assert theirs.counters()["peers of another version or swarm"] >= 1


def test_a_peer_of_another_version_is_told_apart_by_both_numbers() -> None:
    exchange, later = node(), identity(6).peer_id
    exchange.learned(later, ["/ip4/30.0.0.1/tcp/1"])
    assert exchange.strangers() == 0  # nobody has answered yet
    (call,) = calls_of(exchange, 0.0)
    (hello,) = (
        action
        for action in exchange.failed(call.token, Failure.UNSUPPORTED, 0.5)
        if isinstance(action, CallPeer)
    )
    assert hello.protocol == wire.HELLO
    exchange.replied(hello.token, b'{"swarm":"test","versions":[1,3]}', 1.0)
    assert exchange.peers(1.0)[0].note == "speaks protocol version 1, 3, this node speaks 2"
    assert not [call for second in range(2, 300) for call in calls_of(exchange, float(second))]


def test_two_nodes_with_one_identity_notice() -> None:
    third, twins = node(3), (node(1), node(1))
    for number in range(6):
        twin, now = twins[number % 2], 10.0 * number
        twin.learned(identity(3).peer_id, ["/ip4/30.0.0.3/tcp/1"])
        for action in [*twin.publish([], Round(number), 0, now), *twin.tick(now + 5)]:
            assert isinstance(action, CallPeer)
            reply = third.answer(caller(1), action.protocol, action.request, now + 5)
            twin.replied(action.token, reply, now + 5)
    assert any("two nodes with one identity" in name for twin in twins for name in twin.counters())


def test_a_group_found_wanting_is_not_passed_on() -> None:
    swarm = Swarm().add_many(2)
    swarm.run(40)
    exchange, (_, delivery) = swarm.exchanges[0], swarm.members[0].delivered[-1]
    key = delivery.content_hash
    request = wire.encode_pull(TAG, [key])
    (envelope,) = wire.decode_groups(exchange.answer(caller(9), wire.PULL, request, 41.0), 1)
    assert key_of(envelope) == key
    exchange.verdict(swarm.members[1].peer, key, Reason.UNKNOWN_QUESTION, 41.0)
    assert exchange.answer(caller(9), wire.PULL, request, 42.0) == wire.encode_groups([b""])


def test_all_groups_asked_for_come_in_order_and_within_the_limit_of_a_reply() -> None:
    exchange, author = node(), identity(0)
    groups = sealed_groups(author, 0, 8)
    exchange.publish(groups, Round(0), 0, 0.0)
    keys = [key_of(group) for group in reversed(groups[1:])]
    reply = exchange.answer(caller(9), wire.PULL, wire.encode_pull(TAG, [*keys, bytes(32)]), 1.0)
    assert wire.decode_groups(reply, 8) == [*reversed(groups[1:]), b""]
    large = [bytes([number]) * limits.MAX_MESSAGE_BYTES for number in range(8)]
    exchange.publish(large, Round(1), 0, 2.0)
    reply = exchange.answer(
        caller(9), wire.PULL, wire.encode_pull(TAG, list(map(key_of, large))), 3.0
    )
    assert wire.decode_groups(reply, 8) == [*large[:7], b""]


def test_an_upload_over_the_limit_is_refused() -> None:
    exchange = Exchange(identity(0), SWARM, NetworkConfig(upload_limit=1), Random(0), 0.0)
    groups = sealed_groups(identity(0), 0, 9)
    exchange.publish(groups, Round(0), 0, 0.0)
    request = wire.encode_pull(TAG, [key_of(group) for group in groups[:8]])
    sent = 0
    for number in range(2000):
        sent += len(exchange.answer(caller(number), wire.PULL, request, number / 100))
    assert sent <= 2 * limits.MAX_PULL_REPLY_BYTES + 20 * 1000


def serve_what_another_wrote(faults: str) -> tuple[Exchange, PeerId, PeerId, float]:
    """An honest holder serves a node three groups, each with this fault, of an author that cannot
    be reached. Returns the node, the author, the holder and the time in seconds.
    """
    swarm = Swarm(every=1e9)
    victim, exchange = swarm.add(want=0, groups=0), swarm.exchanges[0]
    author, holder = identity(10), identity(11)
    groups = {key_of(envelope): envelope for envelope in sealed_groups(author, 0, 3)}
    hints = [codec.to_text(key[: limits.HOLDING_BYTES]) for key in groups]
    items = [announced(author, 1, list(groups.values())), announced(holder, 1, held=hints)]
    swarm.hostile(11, serve(items, groups))
    exchange.learned(holder.peer_id, [address(11)])
    for _ in range(8):
        swarm.world.perform(victim, exchange.publish([], Round(0), 3, swarm.world.now))
        swarm.run(30)
    assert {delivery.source for _, delivery in victim.delivered} == {holder.peer_id} and len(
        victim.delivered
    ) == 3
    for _, delivery in victim.delivered:
        exchange.verdict(delivery.group.author, delivery.content_hash, faults, swarm.world.now)
    return exchange, author.peer_id, holder.peer_id, swarm.world.now


@pytest.mark.parametrize(
    "fault", [*sorted(HUNG), "scorer raised", "not a score", "environment raised TypeError"]
)
def test_nobody_is_blamed_for_serving_a_group_of_another_or_for_a_mistake_of_a_scorer(
    fault: str,
) -> None:
    """The author of a group that hangs is quarantined. The peer that served the group is only
    called less often.
    """
    exchange, author, holder, now = serve_what_another_wrote(fault)
    reputation = exchange._knowledge.reputation
    assert reputation.state(author, now) == ("quarantined" if fault in HUNG else "ok")
    assert (reputation.state(holder, now), reputation.of(holder).guilt_at(now)) == ("ok", 0.0)
    success = reputation.of(holder).success
    assert (
        success < 0.6
        if fault in HUNG
        else (success, reputation.of(author).guilt_at(now)) == (1.0, 0.0)
    )
