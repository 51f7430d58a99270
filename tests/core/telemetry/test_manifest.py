import json
import subprocess

import pytest

from swarm_node.common import files
from swarm_node.common.files import pretty, write_json
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.manifest import commit, manifest


def test_a_manifest_says_what_ran_on_what(tmp_path):
    path = tmp_path / "manifest.json"
    write_json(path, manifest("node", NodeConfig(seed=7), [7], ["swarm-node", "run"]))
    content = json.loads(path.read_text())
    assert (
        content["kind"] == "node"
        and content["command"] == ["swarm-node", "run"]
        and content["seeds"] == [7]
    )
    assert content["config"]["training"]["epsilon_high"] == 0.28
    assert {"python", "torch", "reasoning-gym"} <= content["versions"].keys()
    assert content["hardware"]["cores"] >= 1 and content["hardware"]["cpu"]


def test_a_config_in_a_manifest_can_be_read_back(tmp_path):
    config = NodeConfig(home=tmp_path, seed=7)
    assert (
        NodeConfig.model_validate(json.loads(json.dumps(manifest("node", config, [7])))["config"])
        == config
    )


@pytest.fixture
def checkout(tmp_path):
    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one", "--no-verify")
    return tmp_path


def test_the_commit_of_a_checkout_says_whether_files_differ_from_it(checkout):
    clean = commit(checkout)
    (checkout / "file").write_text("two")
    assert len(clean) == 40 and commit(checkout) == clean + "+changes"


def test_outside_a_checkout_there_is_no_commit(tmp_path):
    assert commit(tmp_path) is None


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    write_json(path, {"a": 1})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1} and list(tmp_path.iterdir()) == [path]


def test_curves_take_one_line_each_and_all_comes_back():
    value = {
        "arms": {"8/0": {"rewards": [[0.1, 0.2], [0.3]], "mean": None, "empty": {}, "none": []}},
        "é": "[x]",
    }
    text = pretty(value)
    assert json.loads(text) == value and "[0.1, 0.2]" in text and text.count("\n") == 13
