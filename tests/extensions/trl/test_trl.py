"""The TRL example beside a node, a node on py-libp2p and a contributor: each trains on groups of every other."""

from importlib.util import find_spec

import pytest

from lab.studies.mixed_swarm import API, TRAINERS, measured

pytest.importorskip("trl")
pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(2700)]

STEPS = 6


def test_a_trl_script_two_nodes_and_a_contributor_train_on_each_other() -> None:
    backend = "libp2p" if find_spec("libp2p") else "hivemind"  # where the extra trl is installed alone
    found = measured(STEPS, backend, model="rare")
    assert set(found["first"]) == set(TRAINERS)
    for who, others in found["first"].items():
        assert set(others) == {*TRAINERS, API} - {who}
        assert all(seconds is not None for seconds in others.values()), found["first"]
        assert len(found["rewards"][who]) >= STEPS
