"""CONTRIBUTING names one room for each change one could think of, and every room and name it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHANGES = (
    *(
        "the reward of a completion",
        "groups are trained on",
        "the optimiser",
        "a field on the wire",
        "a command",
        "a metric",
    ),
    *("a kind of attack", "a network library", "the decoder of a family", "a web page", "an exporter of metrics"),
    "an engine of the simulation",
)


def rows() -> list[list[str]]:
    text = (ROOT / "CONTRIBUTING.md").read_text().split("## Where a change goes")[1].split("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]


def test_each_of_twelve_changes_has_a_row_with_one_room_that_exists() -> None:
    by_change = {row[0]: row for row in rows()[1:]}
    for change in CHANGES:
        (row,) = [row for name, row in by_change.items() if change in name]
        (room,) = re.findall(r"`([^`]+)`", row[1])
        assert (ROOT / room).exists(), room


def test_every_file_that_a_row_names_is_in_its_room() -> None:
    for _, where, what in rows()[1:]:
        room = ROOT / re.findall(r"`([^`]+)`", where)[-1]
        folder = room if room.is_dir() else room.parent
        for name in re.findall(r"`([\w/]+\.(?:py|toml|md))`", what):
            places = [folder / name, ROOT / name, ROOT / "swarm_node" / name, folder.parent / name]
            assert any(place.exists() for place in places), name
