"""Socket folders of daemons that were killed are found again, and those in use are left."""

import os
import socket
from pathlib import Path

from swarm_node.network.transport.leftovers import sweep


def test_only_folders_where_nobody_answers_go(tmp_path: Path) -> None:
    dead, alive, young, other = (tmp_path / f"swarm-node-{name}" for name in ("aaaaaaaa", "bbbbbbbb", "cccccccc", "d"))
    for folder in (dead, alive, young, other):
        folder.mkdir()
    for folder in (dead, alive):
        os.utime(folder, (0, 0))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(alive / "control"))
        listener.listen()
        os.utime(alive, (0, 0))
        sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {alive.name, young.name, other.name}
