"""Shares of training under attack, counted from reports of nodes."""

import pytest

from lab.benchmarks.seeded import identities
from lab.studies.shares import shares
from protocol.messages import PeerId

ANN, BOB, CAT = PeerId("ann"), PeerId("bob"), PeerId("cat")


def report(**trained: int) -> dict[str, object]:
    """A round that trained on so many groups of each peer."""
    flooder = identities("flooder", 1)[0].peer_id
    names = {"flooder": flooder}
    counts = {names.get(name, name): {"trained": count} for name, count in trained.items()}
    return {"external_by_peer": counts}


def test_an_attack_is_set_against_its_fair_share_and_against_an_honest_node() -> None:
    reports = [
        [report(flooder=2, bob=4), report(cat=4)],
        [report(flooder=2, ann=4, cat=4)],
        [report(flooder=2, ann=4, bob=4)],
    ]
    counted = shares(reports, [ANN, BOB, CAT], ["flooder"])
    assert counted["fair"] == pytest.approx(1 / 3)
    assert counted["share"]["flooder"] == pytest.approx(0.2)
    assert counted["of_fair"]["flooder"] == pytest.approx(0.6)
    assert counted["of_honest"]["flooder"] == pytest.approx(0.5)
