"""A bounded run of `lab.fuzzing.forged_episodes`; the long one is run by hand. Also tests that it
finds faults.
"""

import pytest

from lab.fuzzing import forged_episodes
from swarm_node.node import episodes


@pytest.mark.slow
def test_no_forged_trajectory_is_trained_on_as_its_author_told_it() -> None:
    found = forged_episodes.run(300)
    assert (found["wrong"], found["failures"], found["quarantined"]) == ([], [], 0)
    assert found["trajectories"] >= 300 and found["outcomes"]["honest"].keys() == {"kept"}
    kept = {kind for kind, outcomes in found["outcomes"].items() if outcomes.get("kept")}
    assert not kept & {
        "turn inserted",
        "other seed",
        "other author",
        "other swarm",
        "other version",
        "after the end",
    }


@pytest.mark.slow
def test_a_node_that_believed_a_trace_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "as_told", lambda told, played: True)
    assert forged_episodes.run(100)["wrong"]
