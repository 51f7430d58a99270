"""Figures of runs as files."""

import json

import pytest

from swarm_node.extensions.simulation.plot_command import command
from tests.runs import home_with


@pytest.mark.slow
def test_nodes_and_simulations_become_png_and_svg(tmp_path, capsys, finished):
    report = json.loads((finished / "report.json").read_text())
    (finished / "report.json").write_text(json.dumps({**report, "a key of a later version": 1}))
    home = home_with(tmp_path / "home", 30)
    command([str(home), str(finished), "--out", str(tmp_path / "figures")])
    files = sorted((tmp_path / "figures").iterdir())
    assert capsys.readouterr().out.split() == list(map(str, files))
    assert [file.name for file in files] == ["home-node.png", "home-node.svg", "out-rewards.png", "out-rewards.svg"]
    for file in files:
        begins = b"\x89PNG" if file.suffix == ".png" else b"<?xml"
        assert file.read_bytes().startswith(begins) and file.stat().st_size > 5000
    command([str(home)])
    assert (home / "node.svg").exists()
