"""A run goes on with its model, however its path is spelt, and where its folder has moved."""

import shutil

from swarm_node import starters
from swarm_node.node.checkpoints import _same_model
from swarm_node.policy import named


def test_two_spellings_of_one_path_are_one_model(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m" / "x").mkdir(parents=True)
    (tmp_path / "link").symlink_to("m/x")
    for name in ("./m/x/", "m//x", str(tmp_path / "m" / "x"), "m/../m/x", "link"):
        assert named.same("m/x", name) and _same_model("m/x", name, ""), name
    assert not named.same("m/x", "m/y") and not named.same("m/x", "rare")
    assert named.same("rare", "rare")


def test_a_folder_that_moved_is_known_by_what_is_in_it(tmp_path) -> None:
    first, moved, other = (tmp_path / name for name in ("first", "moved", "other"))
    shutil.copytree(starters.folder("rare"), first)
    made_of = named.digest(str(first))
    shutil.copytree(first, other)
    first.rename(moved)
    assert len(made_of) == 64 and named.digest(str(first)) == ""
    assert _same_model(str(first), str(moved), made_of)
    assert not _same_model(str(first), str(moved), "")  # a checkpoint of an earlier version
    weights = bytearray((other / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (other / "model.safetensors").write_bytes(weights)
    assert not _same_model(str(first), str(other), made_of)
    assert named.digest("rare") == "" and named.digest("owner/name") == ""
