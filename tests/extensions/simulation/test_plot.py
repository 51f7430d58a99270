"""Figures of runs as files."""

import json
from pathlib import Path

import pytest

from swarm_node.common.errors import UserError
from swarm_node.extensions.simulation.plot_command import command
from tests.runs import home_with

ARM = {
    "local_groups": 2,
    "cumulative_reward": [3.0],
    "mean": 3.0,
    "ci95": None,
    "rewards": [[1.0, 2.0]],
    "final_reward": [0.5],
    "informative_share": [[0.5, 0.5]],
    "node_rewards": [[3.0]],
    "generated_tokens": 1,
    "trained_tokens": 1,
    "rollouts": 1,
    "skipped": {},
    "rejected": {},
    "attack": None,
    "metrics": {},
    "a key of a later version": 1,
}


def report(folder: Path) -> Path:
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"kind": "simulation", "config": {}}))
    arms = {"2/0": {**ARM, "external_groups": 0}, "1/1": {**ARM, "external_groups": 1}}
    about = {"nodes": ["a", "b"], "rounds": 2, "seeds": [0], "questions": 2, "scoring": "exact"}
    (folder / "report.json").write_text(json.dumps({**about, "arms": arms, "cost": {}}))
    return folder


@pytest.mark.slow
def test_nodes_and_simulations_become_png_and_svg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, simulation = home_with(tmp_path / "home", 30), report(tmp_path / "report")
    command([str(home), str(simulation), "--out", str(tmp_path / "figures")])
    command([str(home)])
    files = [Path(name) for name in capsys.readouterr().out.split()]
    names = ["home-node.png", "home-node.svg", "report-rewards.png", "report-rewards.svg", "node.png", "node.svg"]
    assert [file.name for file in files] == names
    for file in files:
        begins = b"\x89PNG" if file.suffix == ".png" else b"<?xml"
        assert file.read_bytes().startswith(begins) and file.stat().st_size > 5000


def test_what_cannot_be_drawn_is_one_line(tmp_path: Path) -> None:
    unfinished = report(tmp_path / "unfinished")
    (unfinished / "report.json").unlink()
    broken = report(tmp_path / "broken")
    (broken / "report.json").write_text('{"arms": 3}')
    for arguments, words in (
        ([], "name a run"),
        ([str(tmp_path / "missing")], "is no folder"),
        ([str(tmp_path)], "holds no rounds"),
        ([str(unfinished)], "not finished"),
        ([str(broken)], "is no report"),
    ):
        with pytest.raises(UserError, match=words):
            command(arguments)
