"""Traces of nodes that come and go, and addresses, for `lab.studies.hundred`."""

from pathlib import Path

import pytest

from lab.studies.churn import Change, phones, recorded
from lab.studies.happenings import address
from swarm_node.network.parties import network_of


def test_a_recorded_trace_is_read_as_far_as_it_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("second,node,there\n5,0,0\n9.5,0,1\n2,7,0\n99,1,0\n")
    assert recorded(file, nodes=2, seconds=60.0) == [Change(5.0, 0, False), Change(9.5, 0, True)]


def test_each_address_is_in_a_network_of_its_own() -> None:
    found = [address(number) for number in range(1000)]
    assert len({network_of(f"/ip4/{each}/tcp/1") for each in found}) == 1000


def test_phones_that_were_on_line_at_the_hour_become_nodes_that_are_there_at_first(
    tmp_path: Path,
) -> None:
    file, hour = tmp_path / "phones.txt", 3_600_000  # ms
    weeks = [
        f"a 1 1402358400000 2 {hour} 60000 {166 * hour + 3_540_000}",  # goes at the hour itself
        # Goes at 10 s, comes at 10.5
        f"b 0 1402358400000 2 1000 {hour + 9000} 500 {167 * hour - 10_500}",
        f"b 1 1402963200000 2 {168 * hour}",  # a week later, left out
        f"c 1 1402358400000 2 {168 * hour}",  # stays
        f"d 0 1402358400000 2 {168 * hour}",  # never there
    ]
    file.write_text("\n".join(weeks) + "\n")
    changes = phones(file, 2, hour=1, seed=0)
    assert {change.node for change in changes} == {changes[0].node}
    assert [(change.second, change.there) for change in changes] == [(10.0, False), (10.5, True)]
    with pytest.raises(ValueError, match="larger"):
        phones(file, 3, hour=1, seed=0)
