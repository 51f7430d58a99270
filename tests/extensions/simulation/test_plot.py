"""Figures of runs as files."""

import json

import pytest

from swarm_node.extensions.simulation.plot_command import command


@pytest.mark.slow
def test_simulations_become_png_and_svg(tmp_path, capsys, finished):
    report = json.loads((finished / "report.json").read_text())
    (finished / "report.json").write_text(json.dumps({**report, "a key of a later version": 1}))
    command([str(finished), "--out", str(tmp_path / "figures")])
    files = sorted((tmp_path / "figures").iterdir())
    assert capsys.readouterr().out.split() == list(map(str, files))
    assert [file.name for file in files] == ["out-rewards.png", "out-rewards.svg"]
    for file in files:
        begins = b"\x89PNG" if file.suffix == ".png" else b"<?xml"
        assert file.read_bytes().startswith(begins) and file.stat().st_size > 5000
    command([str(finished)])
    assert (finished / "rewards.svg").exists()
