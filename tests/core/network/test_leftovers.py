"""Socket folders that killed processes left behind are removed; those in use, new ones and other
folders stay.
"""

import os
from pathlib import Path

import pytest

from swarm_node.network.transport import leftovers
from swarm_node.network.transport.leftovers import socket_room, sweep


def test_only_folders_that_nobody_holds_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "UNIX_PATH_BYTES", 1000)
    dead, young, other = (tmp_path / f"swarm-node-{name}" for name in ("aaaaaaaa", "cccccccc", "d"))
    for folder in (dead, young, other):
        folder.mkdir()
    with socket_room(tmp_path) as held:
        for folder in (dead, held):
            os.utime(folder, (0, 0))
        sweep(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {held.name, young.name, other.name}
    assert not held.exists()
