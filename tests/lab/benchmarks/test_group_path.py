"""The files that an external group passes are traced in a real node."""

import pytest

from lab.benchmarks.group_path import ROOT, path_of_a_group


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(1800)
def test_the_way_of_an_external_group_is_traced_from_the_wire_to_the_update() -> None:
    path = path_of_a_group(ROOT)
    rooms = ("node/round", "rollouts/inbox", "training/trainer")
    assert {"protocol/codec.py", *(f"swarm_node/{each}.py" for each in rooms)} <= path
    assert not {file for file in path if file.startswith(("tests/", "lab/"))}
