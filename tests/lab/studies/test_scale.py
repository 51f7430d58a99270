"""The scale benchmark runs from end to end on a small swarm, and a small swarm is healthy."""

import pytest

from lab.studies.scale import GROUP_BYTES, WANT, run


@pytest.mark.slow
def test_a_small_swarm_gets_what_it_wants_within_its_bytes_and_forgets_the_dead() -> None:
    result = run(16, seed=0)
    steady = result["steady"]
    assert steady["groups_per_want"] > 0.9
    assert steady["pulls_per_origin_and_round"]["mean"] == pytest.approx(WANT, rel=0.4)
    assert 2 * WANT * GROUP_BYTES < 1000 * steady["kilobytes_per_node_and_round"]["mean"] < 250_000
    assert steady["age_in_rounds"]["p50"] < 2
    assert 0 < result["stale_entries_by_round"]["0"] < 0.5
    assert list(result["stale_entries_by_round"].values())[-1] == 0
    assert result["churned"]["groups_per_want"] > 0.8, "newcomers, a fourth of all, get theirs"
