"""Opinions a node forms by itself: slow to condemn what may be honest, quick with lies, and forgetful."""

from protocol.messages import PeerId
from protocol.rejection import Reason
from swarm_node.network.actions import USEFUL
from swarm_node.network.exchange.peers import (
    BAN_SECONDS,
    HALF_LIFE,
    MAX_PEERS,
    POINTS,
    QUARANTINE,
    Reputation,
)

ANN = PeerId("ann")


def charge(reputation: Reputation, outcome: str, times: int, now: float = 0.0) -> None:
    for _ in range(times):
        reputation.charge(ANN, POINTS[outcome], now, outcome)


def test_a_stranger_is_trusted() -> None:
    reputation = Reputation()
    assert reputation.state(ANN, 0.0) == "ok"
    assert reputation.of(ANN).success == 1.0


def test_forged_addresses_quarantine_at_once_and_ban_when_repeated() -> None:
    reputation = Reputation()
    charge(reputation, Reason.WRONG_SEED, 1)
    assert reputation.state(ANN, 0.0) == "quarantined"
    charge(reputation, Reason.WRONG_SEED, 1)
    assert reputation.state(ANN, 0.0) == "banned"
    assert reputation.state(ANN, BAN_SECONDS - 1) == "banned"
    assert reputation.state(ANN, BAN_SECONDS + HALF_LIFE) == "ok"


def test_quarantine_wears_off_by_itself() -> None:
    reputation = Reputation()
    charge(reputation, Reason.UNKNOWN_QUESTION, 4)
    assert reputation.state(ANN, 0.0) == "quarantined"
    assert reputation.state(ANN, HALF_LIFE) == "ok"


def test_useful_groups_make_up_for_unusable_ones_and_earn_no_credit() -> None:
    reputation = Reputation()
    for _ in range(50):
        charge(reputation, Reason.UNKNOWN_QUESTION, 1)
        charge(reputation, USEFUL, 1)
    assert reputation.state(ANN, 0.0) == "ok"
    charge(reputation, USEFUL, 100)
    charge(reputation, Reason.WRONG_SEED, 1)
    assert reputation.of(ANN).guilt_at(0.0) >= QUARANTINE


def test_success_follows_the_latest_pulls() -> None:
    reputation = Reputation()
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
    assert reputation.is_banned(ANN, 0.0)
    assert len(reputation._records) == MAX_PEERS
