"""The count of the files that an external group passes still works: it traces a real node."""

import pytest

from lab.benchmarks.compatibility import ROOT
from lab.benchmarks.group_path import path_of_a_group


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(1800)
def test_the_way_of_an_external_group_is_traced_from_the_wire_to_the_update() -> None:
    path = path_of_a_group(ROOT)
    for passed in (
        "protocol/codec.py",
        "swarm_node/node/round.py",
        "swarm_node/rollouts/pool.py",
        "swarm_node/training/advantages.py",
    ):
        assert passed in path
    assert not {file for file in path if file.startswith(("tests/", "benchmarks/"))}
