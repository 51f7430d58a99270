"""`simulate --engine docker` without Docker ends with one line that says what to do."""

from pathlib import Path

import pytest

from tests.commands import ended


def test_without_an_engine_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody-listens.sock")
    result = ended("simulate", "--engine", "docker", "--nodes", 2, "--rounds", 1, "--out", tmp_path / "out")
    assert result.returncode == 2, result.stdout + result.stderr
    (line,) = result.stderr.strip().splitlines()
    assert "no Docker engine answers" in line and "--engine process" in line
