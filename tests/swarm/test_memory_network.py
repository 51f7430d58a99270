"""Members of a swarm in memory reach each other, through real bytes and with real losses."""

from random import Random

import pytest

from protocol import codec
from protocol.admission import AdmissionRules
from protocol.identity import Identity
from protocol.messages import Round
from swarm_node.network.in_memory import INBOX_FULL, UNSENT, MemoryNetwork, MemorySwarm
from tests.groups import external, group

ANN, BOB, CAT = (Identity.from_seed_bytes(name * 32) for name in (b"a", b"b", b"c"))


def rules(identity: Identity, swarm: str = "test") -> AdmissionRules:
    return AdmissionRules(swarm, identity.peer_id, knows=lambda question: True)


def join(swarm: MemorySwarm, *identities: Identity) -> list[MemoryNetwork]:
    return [swarm.join(identity, rules(identity)) for identity in identities]


def test_what_one_publishes_all_others_collect_in_the_same_round() -> None:
    ann, bob, cat = join(MemorySwarm(Random(0)), ANN, BOB, CAT)
    ann.publish([group(ANN.peer_id, index=0), group(ANN.peer_id, index=1)], Round(0))
    bob.publish([group(BOB.peer_id)], Round(0))
    assert ann.collect(Round(0)) == [external(group(BOB.peer_id))]
    assert bob.collect(Round(0)) == [external(group(ANN.peer_id, index=index)) for index in (0, 1)]
    assert len(cat.collect(Round(0))) == 3
    assert not ann.rejections()
    assert not cat.rejections()


@pytest.mark.parametrize(("delay", "collected"), [(0, [1, 1, 0, 0, 0]), (2, [0, 0, 1, 1, 0])])
def test_a_message_comes_as_many_rounds_later_as_it_is_delayed_and_once(
    delay: int, collected: list[int]
) -> None:
    ann, bob = join(MemorySwarm(Random(0), delay=delay), ANN, BOB)
    for now in (0, 1):
        ann.publish([group(ANN.peer_id, round=now)], Round(now))
    assert [len(bob.collect(Round(now))) for now in range(5)] == collected


def test_messages_are_lost_at_the_given_rate_and_the_same_ones_for_the_same_seed() -> None:
    def received(seed: int) -> list[int]:
        ann, bob = join(MemorySwarm(Random(seed), loss=0.3), ANN, BOB)
        ann.publish([group(ANN.peer_id, round=number) for number in range(200)], Round(0))
        return [each.round for each in bob.collect(Round(0))]

    assert 110 < len(received(1)) < 170 and received(1) == received(1) != received(2)


def test_replayed_bytes_are_admitted_once_by_each_receiver() -> None:
    swarm = MemorySwarm(Random(0))
    _, bob, cat = join(swarm, ANN, BOB, CAT)
    data = codec.seal(group(ANN.peer_id), ANN, "test")
    for now in range(3):
        swarm.transmit(data, ANN.peer_id, Round(now))
        assert len(bob.collect(Round(now))) == (now == 0)
    assert len(cat.collect(Round(3))) == 1 and bob.rejections() == cat.rejections() == {
        "replayed": 2
    }


def test_only_the_latest_payloads_are_remembered() -> None:
    swarm = MemorySwarm(Random(0), memory=2)
    ann, bob = join(swarm, ANN, BOB)
    ann.publish([group(ANN.peer_id, index=index) for index in (0, 1, 2, 1, 0)], Round(0))
    assert [group.question.index for group in bob.collect(Round(0))] == [0, 1, 2, 0]


def test_a_forged_copy_that_comes_first_does_not_block_the_real_message() -> None:
    swarm = MemorySwarm(Random(0))
    ann, bob = join(swarm, ANN, BOB)
    swarm.transmit(bytes(64) + codec.encode(group(ANN.peer_id)), CAT.peer_id, Round(0))
    ann.publish([group(ANN.peer_id)], Round(0))
    assert bob.collect(Round(0)) == [external(group(ANN.peer_id))] and bob.rejections() == {
        "bad signature": 1
    }


def test_what_a_member_signs_for_another_is_refused_by_everybody() -> None:
    ann, bob, cat = join(MemorySwarm(Random(0)), ANN, BOB, CAT)
    ann.publish([group(CAT.peer_id), group(ANN.peer_id, index=1)], Round(0))
    assert bob.collect(Round(0)) == [external(group(ANN.peer_id, index=1))]
    assert cat.collect(Round(0)) == [external(group(ANN.peer_id, index=1))]
    assert bob.rejections() == cat.rejections() == {"bad signature": 1}


def test_an_echo_of_the_own_message_is_refused() -> None:
    swarm = MemorySwarm(Random(0))
    (ann,) = join(swarm, ANN)
    swarm.transmit(codec.seal(group(ANN.peer_id), ANN, "test"), BOB.peer_id, Round(0))
    assert ann.collect(Round(0)) == [] and ann.rejections() == {"local message": 1}


def test_two_swarms_in_one_ether_do_not_mix() -> None:
    ether = MemorySwarm(Random(0))
    ann, bob, cat = (
        ether.join(who, rules(who, name))
        for who, name in ((ANN, "test"), (BOB, "test"), (CAT, "two"))
    )
    ann.publish([group(ANN.peer_id)], Round(0))
    assert len(bob.collect(Round(0))) == 1 and cat.collect(Round(0)) == []
    assert cat.rejections() == {"bad signature": 1}


def test_a_full_inbox_keeps_the_newest() -> None:
    ann, bob = join(MemorySwarm(Random(0), inbox=3), ANN, BOB)
    ann.publish([group(ANN.peer_id, index=number) for number in range(5)], Round(0))
    assert [group.question.index for group in bob.collect(Round(0))] == [2, 3, 4]
    assert bob.rejections() == {INBOX_FULL: 2}


def test_a_group_too_big_to_travel_is_counted_and_the_others_are_sent() -> None:
    ann, bob = join(MemorySwarm(Random(0)), ANN, BOB)
    huge = group(ANN.peer_id, index=1, texts=["x" * 16_000] * 5)
    ann.publish([huge, group(ANN.peer_id)], Round(0))
    assert bob.collect(Round(0)) == [external(group(ANN.peer_id))]
    assert ann.rejections() == {UNSENT: 1}


def test_who_has_left_receives_nothing_and_is_not_received_but_what_it_sent_arrives() -> None:
    swarm = MemorySwarm(Random(0), delay=1)
    ann, bob = join(swarm, ANN, BOB)
    ann.publish([group(ANN.peer_id)], Round(0))
    swarm.leave(ANN.peer_id)
    swarm.leave(ANN.peer_id)  # twice is once
    ann.publish([group(ANN.peer_id, round=1)], Round(1))
    bob.publish([group(BOB.peer_id, round=1)], Round(1))
    assert bob.collect(Round(2)) == [external(group(ANN.peer_id))] and ann.collect(Round(2)) == []


def test_who_comes_back_is_received_again_but_its_former_access_stays_dead() -> None:
    swarm = MemorySwarm(Random(0))
    ann, bob = join(swarm, ANN, BOB)
    swarm.leave(ANN.peer_id)
    (again,) = join(swarm, ANN)
    ann.publish([group(ANN.peer_id, round=1)], Round(1))
    again.publish([group(ANN.peer_id, round=2)], Round(2))
    assert bob.collect(Round(2)) == [external(group(ANN.peer_id, round=2))]
