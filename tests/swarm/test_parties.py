"""Downloads are shared out among parties: networks of addresses, not identities."""

from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.studies.simulated_exchange import SimulatedPeer, World
from protocol import codec, wire
from protocol.messages import Announcement, PeerId, Rejected, Round
from swarm_node.network.actions import Deliver
from swarm_node.network.backend import Caller
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.exchange.knowledge import UNPROVEN
from swarm_node.network.exchange.rounds import BACK, LATELY, Rounds
from swarm_node.network.parties import network_of
from tests.exchanges import SWARM, Swarm, address, identity, key_of, sealed_groups

EVE = PeerId("eve")


def parties_of(member: SimulatedPeer) -> Counter[str]:
    return Counter(delivery.party for _, delivery in member.delivered)


def rounds_of(swarm: Swarm, reader: SimulatedPeer, count: int, want: int = 4) -> None:
    """The reader wants groups for so many rounds."""
    exchange = reader.party
    assert isinstance(exchange, Exchange)
    for number in range(count):
        actions = exchange.publish([], Round(number), want, swarm.world.now)
        swarm.world.perform(reader, actions)
        swarm.run(10)


@pytest.mark.slow
def test_sybils_of_one_network_are_read_as_often_as_one_honest_author() -> None:
    swarm = Swarm(every=10.0)
    reader = swarm.add(want=0, groups=0)
    swarm.add_many(5, want=0, groups=3)
    swarm.add_many(10, want=0, groups=9, network=150)
    rounds_of(swarm, reader, 40)
    parties = parties_of(reader)
    sybils = parties[network_of(address(0, network=150))]
    assert len(parties) == 6 and parties.total() >= 140
    assert sybils <= 1.2 * parties.total() / 6, "by chance: the training set is shared out exactly"


class Impostor:
    """One machine that speaks for many identities, each of which claims to be in a network of its
    own. It serves all their groups itself.
    """

    def __init__(self, world: World, count: int) -> None:
        self.identities = [identity(500 + number) for number in range(count)]
        self.envelopes: dict[bytes, bytes] = {}
        self.sealed: list[bytes] = []
        self.world, self.number = world, 0

    def renew(self) -> None:
        """Every identity has new groups; the first one holds those of all."""
        self.number += 1
        made = {who.peer_id: sealed_groups(who, self.number, 4) for who in self.identities}
        held = [key_of(envelope) for envelopes in made.values() for envelope in envelopes]
        self.envelopes |= {
            key_of(envelope): envelope for envelopes in made.values() for envelope in envelopes
        }
        self.sealed = []
        for place, who in enumerate(self.identities):
            hints = [codec.to_text(key[:8]) for key in held[place * 4 : place * 4 + 16]]
            announcement = Announcement(
                addresses=(address(500 + place),),
                author=who.peer_id,
                groups=tuple(codec.to_text(key_of(each)) for each in made[who.peer_id]),
                held=tuple(hints) if place else tuple(hints[:16]),
                round=self.number,
                seq=self.number,
            )
            self.sealed.append(codec.seal(announcement, who, SWARM))
        self.world.after(10.0, self.renew)

    def answer(self, caller: Caller, protocol: str, request: bytes, now: float) -> bytes:
        if protocol == wire.EXCHANGE:
            limit = getattr(wire.decode_exchange(request), "limit", 0)
            items = [wire.CarriedAnnouncement(0, sealed) for sealed in self.sealed[:limit]]
            return wire.encode_items(items)
        asked = wire.decode_pull(request)
        assert not isinstance(asked, Rejected)
        return wire.encode_groups([self.envelopes.get(key, b"") for key in asked[1]])


def test_authors_who_cannot_be_reached_where_they_claim_to_be_are_one_party() -> None:
    swarm = Swarm(every=10.0)
    reader = swarm.add(want=0, groups=0)
    swarm.add_many(4, want=0, groups=3)
    impostor = Impostor(swarm.world, 12)
    impostor.renew()
    swarm.hostile(500, impostor)
    exchange = reader.party
    assert isinstance(exchange, Exchange)
    exchange.learned(identity(500).peer_id, [f"{address(500)}/p2p/{identity(500).peer_id}"])
    rounds_of(swarm, reader, 10)
    reader.delivered.clear()  # until then it has found out who can be reached
    rounds_of(swarm, reader, 30)
    parties = parties_of(reader)
    false = {network_of(address(500 + number)) for number in range(1, 12)}
    assert not false & parties.keys()
    assert 0 < parties[UNPROVEN] <= 1.25 * parties.total() / len(parties)


def test_on_a_local_network_each_author_counts_for_itself() -> None:
    swarm = Swarm(every=10.0)
    reader = swarm.add(want=0, groups=0)
    swarm.add_many(3, want=0, groups=3)
    for number, member in enumerate(swarm.members):
        member.address = f"/ip4/192.168.7.{number + 1}/tcp/31330"
    swarm.run(20)
    assert isinstance(reader.party, Exchange)
    for member in swarm.members[1:]:
        reader.party.met(member.peer, member.address)
    rounds_of(swarm, reader, 20)
    late = [delivery for when, delivery in reader.delivered if when > 100]
    assert late and all(delivery.party == delivery.group.author for delivery in late)


def test_a_connection_proves_where_a_peer_is_and_one_through_a_relay_does_not_hide_it() -> None:
    swarm = Swarm()
    first, second = swarm.add(), swarm.add()
    swarm.run(5)
    assert isinstance(first.party, Exchange)
    contacts = first.party._knowledge.contacts
    first.party.met(second.peer, "/ip4/99.1.1.1/tcp/1")
    first.party.met(second.peer, f"/ip4/98.1.1.1/tcp/1/p2p/{first.peer}/p2p-circuit")
    contact = contacts.get(second.peer)
    assert contact is not None and contact.observed == "/ip4/99.1.1.1/tcp/1"
    first.party.met(EVE, "/ip4/97.1.1.1/tcp/1")
    assert contacts.get(EVE) is None, "nobody is learned of by that"


# Rounds far below an author's newest


def delivered(swarm: Swarm, reader: SimulatedPeer, rounds: list[int]) -> list[int]:
    """The rounds of one author's groups that reach the reader, of those that it publishes."""
    author, exchange = swarm.members[1], swarm.exchanges[1]
    wanting = reader.party
    assert isinstance(wanting, Exchange)
    for number in rounds:
        groups = sealed_groups(identity(1), number, 2)
        swarm.world.perform(author, exchange.publish(groups, Round(number), 0, swarm.world.now))
        swarm.run(15)
        swarm.world.perform(reader, wanting.publish([], Round(number), 4, swarm.world.now))
        swarm.run(15)
    return sorted({group.round for group in swarm.pulled(reader)})


def test_old_rounds_of_an_author_are_left_and_nobody_is_charged() -> None:
    swarm = Swarm(every=1e9)
    reader = swarm.add(want=0, groups=0)
    swarm.add(want=0, groups=0)
    swarm.run(20)
    assert delivered(swarm, reader, [1000, 1001, 3, 1001 - BACK, 1002]) == [937, 1000, 1001, 1002]
    assert swarm.exchanges[0].counters()["groups left: round far below its author's newest"] == 2
    assert all(view.guilt == 0.0 for view in swarm.exchanges[0].peers(swarm.world.now))


def test_an_author_that_goes_on_from_its_last_checkpoint_is_let_in() -> None:
    rounds = Rounds()
    for second in range(1200):
        rounds.came(EVE, 1000 + 2 * second, float(second))
    assert not rounds.is_far_below(EVE, 1000 + 2 * 600, 1200.0), "ten minutes before"
    assert rounds.is_far_below(EVE, 1000 - BACK - 1, 1200.0)


def test_an_author_that_was_silent_for_half_an_hour_may_begin_anew() -> None:
    rounds = Rounds()
    rounds.came(EVE, 1000, 0.0)
    assert rounds.is_far_below(EVE, 0, 2 * LATELY - 1.0)
    assert not rounds.is_far_below(EVE, 0, 2 * LATELY)


@given(st.lists(st.tuples(st.integers(0, 4000), st.floats(0.0, 600.0)), max_size=60))
def test_what_is_refused_is_far_below_all_that_came_in_the_last_quarter_of_an_hour(
    came: list[tuple[int, float]],
) -> None:
    rounds, now, admitted = Rounds(), 0.0, list[tuple[float, int]]()
    for number, pause in came:
        now += pause
        lately = [other for when, other in admitted if now - when < LATELY]
        if rounds.is_far_below(EVE, number, now):
            assert all(number < other - BACK for other in lately) and admitted
        else:
            rounds.came(EVE, number, now)
            admitted.append((now, number))


def test_a_delivery_names_its_party_to_the_trainer() -> None:
    assert Deliver(b"{}", EVE, party="20.0.0.0/24").party == "20.0.0.0/24"
    assert partial(Deliver, b"{}", EVE)().party == ""
