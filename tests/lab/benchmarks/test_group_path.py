"""The files that an external group passes are traced in a real node, and compared with those that are written down."""

import json
import sys
from pathlib import Path

import pytest

from lab.benchmarks import group_path
from lab.benchmarks.group_path import ROOT, path_of_a_group


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(1800)
def test_the_way_of_an_external_group_is_traced_from_the_wire_to_the_update() -> None:
    path = path_of_a_group(ROOT)
    rooms = ("node/round", "rollouts/pool", "training/trainer")
    assert {"protocol/codec.py", *(f"swarm_node/{each}.py" for each in rooms)} <= path
    assert not {file for file in path if file.startswith(("tests/", "lab/"))}


def test_the_command_fails_where_other_files_are_written_down_and_can_write_them_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(group_path, "path_of_a_group", lambda code: {"b.py", "a.py"})
    monkeypatch.setattr(group_path, "EXPECTED", tmp_path / "path.txt")
    group_path.EXPECTED.write_text("b.py\nc.py\n")
    monkeypatch.setattr(sys, "argv", ["group_path", "--json"])
    with pytest.raises(SystemExit, match=r"\n\+ a\.py\n- c\.py$"):
        group_path.main()
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["path"], result["new"], result["gone"]) == (["a.py", "b.py"], ["a.py"], ["c.py"])
    monkeypatch.setattr(sys, "argv", ["group_path", "--write"])
    group_path.main()
    assert capsys.readouterr().out == group_path.EXPECTED.read_text() == "a.py\nb.py\n"
