"""A third of a swarm of real network processes dies at once."""

from pathlib import Path

import pytest

from tests.network.members import Member, closing, config, rounds

pytestmark = pytest.mark.network
NODES, KILLED = 6, 2
SOURCES = 3  # others that a node must know to be part of the swarm


def test_when_a_third_is_killed_the_others_find_each_other(tmp_path: Path) -> None:
    """Among the dead is the only bootstrap node that the others were given."""
    first = Member(tmp_path / "0", config())
    entry = first.addresses()[:1]
    members = [
        first,
        *(Member(tmp_path / str(number), config(entry)) for number in range(1, NODES)),
    ]
    with closing(*members):
        rounds(
            members,
            lambda: all(authors(each, 0) >= SOURCES for each in members),
            what="a swarm of all",
        )
        dead, living = members[:KILLED], members[KILLED:]
        for each in dead:
            each.kill()
        # Groups of later rounds are generated after the deaths
        last = max(each.round for each in members)
        rounds(
            living,
            lambda: all(authors(each, last) >= SOURCES for each in living),
            what="a swarm of the living",
        )


def authors(reader: Member, number: int) -> int:
    """The number of peers of which the reader has external groups of this round or later."""
    return len({each.author for each in reader.received if each.round >= number})
