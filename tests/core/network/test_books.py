"""What a node keeps, within bounds: groups it can serve, announcements, contacts; and which of them
it drops first.

Also the reputation of peers: faults that may be honest count little, lies count much, and guilt
wears off.
"""

from protocol import limits
from protocol.identity import Identity
from protocol.messages import Announcement, PeerId, Reason
from swarm_node.network.actions import USEFUL
from swarm_node.network.exchange.knowledge import (
    MAX_BYTES,
    MIN_SECONDS,
    GroupStore,
    LocalAnnouncement,
)
from swarm_node.network.exchange.peers import (
    ANCHORS,
    ANCHORS_OF_NETWORK,
    BAN_SECONDS,
    HALF_LIFE,
    MAX_CONTACTS,
    MAX_PEERS,
    MAX_RETRY,
    POINTS,
    QUARANTINE,
    Contacts,
    Reputation,
)
from swarm_node.network.exchange.view import (
    CAPACITY,
    CROWDED,
    MAX_AGE,
    SEQ_SECONDS,
    HeardAnnouncement,
    View,
    youngest,
)


def announcement(author: str, seq: int = 0) -> Announcement:
    return Announcement(addresses=(), author=PeerId(author), groups=(), held=(), round=0, seq=seq)


def entry(
    author: str, made: float = 0.0, source: str = "s", network: str | None = None, seq: int = 0
) -> HeardAnnouncement:
    place = f"net-{author}" if network is None else network
    return HeardAnnouncement(
        announcement(author, seq), b"", author.encode(), made, PeerId(source), place
    )


def authors(view: View) -> set[str]:
    return {entry.announcement.author for entry in view}


def test_a_group_is_served_for_its_rounds_and_not_less_than_a_minute() -> None:
    store = GroupStore(rounds=3)
    store.add("a", b"group", own=True, round=1, now=0.0)
    store.expire(3, MIN_SECONDS + 1)
    assert store.get("a") == b"group"
    store.expire(4, MIN_SECONDS - 1)  # its rounds are over, but they were quick
    assert store.get("a") == b"group"
    store.expire(4, MIN_SECONDS + 1)
    assert store.get("a") == b""


def test_the_store_is_bounded_in_bytes_and_the_oldest_go() -> None:
    store = GroupStore(rounds=3)
    chunk = bytes(MAX_BYTES // 4)
    for number in range(6):
        store.add(str(number), chunk, own=False, round=1, now=0.0)
    assert [str(number) in store for number in range(6)] == [False, False, True, True, True, True]
    assert store.external(3) == ["5", "4", "3"]


def test_the_same_group_twice_counts_once() -> None:
    store = GroupStore(rounds=1)
    for _ in range(10):
        store.add("a", bytes(MAX_BYTES // 2), own=True, round=1, now=0.0)
    store.add("b", bytes(MAX_BYTES // 2), own=True, round=1, now=0.0)
    assert "a" in store and "b" in store


def test_of_an_author_only_the_highest_number_is_news_and_it_may_not_run_away() -> None:
    view = View()
    view.add(entry("a", seq=5), 0.0, ())
    assert [view.is_news(announcement("a", seq), 1.0) for seq in (4, 5, 6)] == [False, False, True]
    assert [view.is_jump(announcement("a", 5 + more), 1.0) for more in (4096, 4097)] == [
        False,
        True,
    ]
    assert not view.is_jump(announcement("b", 2**31 - 1), 1.0)
    view.remove(PeerId("a"))
    assert not view.is_news(announcement("a", 5), 1.0) and view.is_news(
        announcement("a", 0), SEQ_SECONDS + 1
    )


def test_entries_expire_by_age() -> None:
    view = View()
    view.add(entry("a", made=0.0), 0.0, ())
    view.add(entry("b", made=50.0), 50.0, ())
    view.expire(MAX_AGE + 1)
    assert authors(view) == {"b"}
    view.add(entry("c", made=-100.0), 51.0, ())
    view.expire(MAX_AGE - 99)
    assert authors(view) == {"b"}


def test_when_full_the_most_crowded_network_loses_its_oldest() -> None:
    view = View()
    for number in range(CAPACITY):
        view.add(entry(str(number), made=1.0), 1.0, ())
    for number in range(1000):
        view.add(
            entry(f"sybil-{number}", made=100.0 + number, network="20.1.2.0/24"), 100.0 + number, ()
        )
    assert sum(
        name.startswith("sybil") for name in authors(view)
    ) == CROWDED and "sybil-999" in authors(view)


def test_when_full_one_carrier_cannot_replace_everybody() -> None:
    view = View()
    for number in range(CAPACITY):
        view.add(entry(str(number), source=f"carrier-{number}"), 1.0, ())
    for number in range(1000):
        view.add(entry(f"friend-{number}", made=100.0, source="hostile"), 100.0, ())
    assert sum(name.startswith("friend") for name in authors(view)) <= CAPACITY // 4 + 1


def test_those_known_for_long_are_not_pushed_out() -> None:
    view, keep = View(), [PeerId(str(number)) for number in range(8)]
    for number in range(8):
        view.add(entry(str(number), made=0.0), 0.0, keep)
    for number in range(1000):
        view.add(entry(f"new-{number}", made=1.0, source=str(number)), 1.0, keep)
    assert authors(view) >= set(keep) and len(view) == CAPACITY


def test_youth_is_counted_per_network() -> None:
    crowd = [
        entry(f"sybil-{number}", made=1000.0 + number, network="20.1.2.0/24")
        for number in range(100)
    ]
    others = [entry(str(number), made=float(number)) for number in range(20)]
    names = [chosen.announcement.author for chosen in youngest(crowd + others, 12)]
    assert names[:4] == [f"sybil-{number}" for number in (99, 98, 97, 96)]
    assert names[4:] == [str(number) for number in range(19, 11, -1)]
    assert len(youngest(crowd, 12)) == 12  # a single network may fill all places


def test_strangers_do_not_push_out_those_who_answered_or_were_given() -> None:
    contacts = Contacts()
    contacts.answered(PeerId("old"), 0.0)
    contacts.learn(PeerId("given")).given = True
    for number in range(3 * MAX_CONTACTS):
        contacts.called_in(PeerId(f"junk-{number}"), "/ip4/20.1.2.3/tcp/1", 1.0 + number)
    assert (
        contacts.get(PeerId("old"))
        and contacts.get(PeerId("given"))
        and len(list(contacts)) == MAX_CONTACTS
    )


def test_anchors_are_those_who_have_answered_longest_and_still_do() -> None:
    contacts = Contacts()
    for number in range(2 * ANCHORS):
        contacts.answered(PeerId(str(number)), float(number))
    assert contacts.anchors == tuple(map(str, range(ANCHORS)))
    contacts.failed(PeerId("0"), 30.0)
    contacts.failed(PeerId("0"), 40.0)
    assert contacts.anchors == tuple(map(str, range(1, ANCHORS + 1)))
    contacts.answered(PeerId("0"), 50.0)
    assert contacts.anchors == tuple(map(str, range(ANCHORS)))


def test_peers_that_an_earlier_run_knew_longest_are_anchors_again_once_they_answer() -> None:
    contacts = Contacts()
    contacts.remember({PeerId(f"old{number}"): ("/dns/x/tcp/1",) for number in range(3)})
    for number in range(2 * ANCHORS):
        contacts.answered(PeerId(f"new{number}"), float(number))
    assert not any(peer.startswith("old") for peer in contacts.anchors)
    for number in (2, 0):
        contacts.answered(PeerId(f"old{number}"), 1000.0)
    assert contacts.anchors[:3] == ("old0", "old2", "new0")


def test_of_one_network_of_the_internet_only_two_peers_are_anchors_and_of_a_local_one_all() -> None:
    contacts = Contacts()
    for number in range(6):
        for place in ("20.0.1", "192.168.1"):
            peer = PeerId(f"{place} {number}")
            contacts.called_in(peer, f"/ip4/{place}.{number}/tcp/1", 0.0)
            contacts.answered(peer, float(number))
    networks = [peer.partition(" ")[0] for peer in contacts.anchors]
    assert networks.count("20.0.1") == ANCHORS_OF_NETWORK and networks.count("192.168.1") == 6


def test_a_peer_that_fails_is_left_alone_for_up_to_a_minute_and_one_call_of_its_own_ends_that() -> (
    None
):
    contacts, ann = Contacts(), PeerId("ann")
    for expected in (5.0, 10.0, 20.0, 40.0, *[MAX_RETRY] * 2000):  # for days
        contacts.failed(ann, 100.0)
        assert not contacts.is_ready(ann, 100.0 + expected - 0.1) and contacts.is_ready(
            ann, 100.0 + expected
        )
    contacts.called_in(ann, "", 100.0)
    assert contacts.is_ready(ann, 100.0)


ANN = PeerId("ann")


def charge(reputation: Reputation, outcome: str, times: int, now: float = 0.0) -> None:
    for _ in range(times):
        reputation.charge(ANN, POINTS[outcome], now, outcome)


def test_forged_addresses_quarantine_at_once_and_ban_when_repeated() -> None:
    reputation = Reputation()
    assert reputation.state(ANN, 0.0) == "ok"
    charge(reputation, Reason.WRONG_SEED, 1)
    assert reputation.state(ANN, 0.0) == "quarantined"
    charge(reputation, Reason.WRONG_SEED, 1)
    assert (
        reputation.state(ANN, 0.0) == "banned"
        and reputation.state(ANN, BAN_SECONDS - 1) == "banned"
    )
    assert reputation.state(ANN, BAN_SECONDS + HALF_LIFE) == "ok"


def test_quarantine_wears_off_by_itself() -> None:
    reputation = Reputation()
    charge(reputation, Reason.UNKNOWN_QUESTION, 4)
    assert reputation.state(ANN, 0.0) == "quarantined" and reputation.state(ANN, HALF_LIFE) == "ok"


def test_useful_groups_make_up_for_unusable_ones_and_earn_no_credit() -> None:
    reputation = Reputation()
    for _ in range(50):
        charge(reputation, Reason.UNKNOWN_QUESTION, 1)
        charge(reputation, USEFUL, 1)
    assert reputation.state(ANN, 0.0) == "ok"
    charge(reputation, USEFUL, 100)
    charge(reputation, Reason.WRONG_SEED, 1)
    assert reputation.of(ANN).guilt_at(0.0) >= QUARANTINE


def test_success_begins_at_one_and_follows_the_latest_pulls() -> None:
    reputation = Reputation()
    assert reputation.of(ANN).success == 1.0
    for _ in range(20):
        reputation.pulled(ANN, success=False)
    assert reputation.of(ANN).success < 0.02
    for _ in range(20):
        reputation.pulled(ANN, success=True)
    assert reputation.of(ANN).success > 0.98


def test_minting_identities_frees_no_culprit() -> None:
    reputation = Reputation()
    reputation.ban(ANN, 0.0)
    for number in range(MAX_PEERS + 500):
        reputation.pulled(PeerId(str(number)), success=True)
    assert reputation.is_banned(ANN, 0.0) and len(reputation._records) == MAX_PEERS


def test_a_node_at_the_highest_number_goes_on() -> None:
    """Anybody who holds the node's key can have raised the number to its limit."""
    local = LocalAnnouncement(Identity.from_seed_bytes(b"n" * 32), "swarm", 0.0)
    local.overtake(limits.MAX_SEQUENCE)
    local.announce((), 1.0)
    assert local.seq == limits.MAX_SEQUENCE and local.sealed
