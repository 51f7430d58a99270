"""CONTRIBUTING names a room for each change that one could think of, and what it names exists."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHANGES = (
    "the reward of a completion",
    "groups are trained on",
    "the loss",
    "the optimiser",
    "a field on the wire",
    "a command",
    "a metric",
    "a kind of attack",
    "a network library",
    "the decoder of a family",
    "a web page",
    "an exporter of metrics",
    "an engine of the simulation",
)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head and its line."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    found = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1:]]


def test_each_change_has_a_row_with_one_room_that_exists() -> None:
    by_change = {row[0]: row for row in rows("Where a change goes")}
    for change in CHANGES:
        (row,) = [row for name, row in by_change.items() if change in name]
        (room,) = re.findall(r"`([^`]+)`", row[1])
        assert (ROOT / room).exists(), room


def test_every_file_that_a_row_names_is_in_its_room() -> None:
    for _, where, what in rows("Where a change goes"):
        room = ROOT / re.findall(r"`([^`]+)`", where)[-1]
        folder = room if room.is_dir() else room.parent
        for name in re.findall(r"`([\w/]+\.(?:py|toml|md))`", what):
            places = [folder / name, ROOT / name, ROOT / "swarm_node" / name, folder.parent / name]
            assert any(place.exists() for place in places), name


def test_the_groups_of_entry_points_are_those_of_the_tree() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert {name.strip("`") for name, *_ in rows("Extensions")} == set(groups)
