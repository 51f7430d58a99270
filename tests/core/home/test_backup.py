"""A backup holds what a home cannot make again, and nothing is restored from a damaged backup."""

import json
from pathlib import Path

import pytest

from swarm_node.common.errors import UserError
from swarm_node.home.backup import backup, restore
from swarm_node.home.folder import load_identity


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    load_identity(home)
    for number in (20, 40):
        folder = home / "checkpoints" / f"{number:08d}"
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(json.dumps({"rounds": number}))
        (folder / "model.safetensors").write_bytes(bytes(number) * 1000)
    (home / "checkpoints" / "00000060").mkdir()  # not whole
    (home / "peers.json").write_text('{"port": 1, "peers": ["203.0.113.7"]}')
    return home


def test_what_was_kept_comes_back_bit_for_bit_and_private(home, tmp_path):
    file, new = tmp_path / "b.tar", tmp_path / "new"
    names = backup(home, file)
    assert file.stat().st_mode & 0o777 == 0o600 and sorted(restore(file, new)) == sorted(names)
    assert {path.name for path in (new / "checkpoints").iterdir()} == {"00000040"}
    for name in names:
        assert (new / name).read_bytes() == (home / name).read_bytes()
        assert (new / name).stat().st_mode & 0o777 == 0o600
    assert load_identity(new).peer_id == load_identity(home).peer_id


def test_a_node_is_not_written_over(home, tmp_path):
    file = tmp_path / "b.tar"
    backup(home, file)
    with pytest.raises(UserError, match="holds a node already"):
        restore(file, home)
    with pytest.raises(UserError, match="exists"):
        backup(home, file)
    with pytest.raises(UserError, match="holds no node"):
        backup(tmp_path, tmp_path / "c.tar")
