"""README's example of a task of one's own: the printed commands ask what the home trained on."""

import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ended, ended_well

ROWS = "prompt,answer\n" + "".join(f"{a} + {b} =,{a + b}\n" for a in range(1, 6) for b in range(5))
FEW = ("--round.questions", 4, "--network.no-enabled", "--threads", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sums.csv").write_text(ROWS)
    return tmp_path


def test_the_printed_commands_ask_the_data_set_that_the_home_was_trained_on(folder: Path) -> None:
    options: Any = {"cwd": folder, "env": {**os.environ, "XDG_STATE_HOME": str(folder / "state")}}
    home, file = folder / "my sums", ("--dataset.file", "sums.csv", "--dataset.held-out", 0.4)
    run = ("run", "--home", home, *FEW)
    first = ended_well(*run, *file, "--max-rounds", 2, **options)
    assert "dataset/train" in first.stdout

    asked = ended_well("ask", "--home", home, **{**options, "cwd": "/"})
    assert "dataset.file sums.csv" in asked.stderr
    questions = [line for line in asked.stdout.splitlines() if " =" in line]
    (question,) = questions
    assert any(row.split(",")[0] in question for row in ROWS.splitlines()[1:])
    on = ended_well(*run, "--max-rounds", 4, **options)
    assert "using the options that this home used before: " in on.stdout
    assert "right (in training, " in on.stdout and "4 in all" in on.stdout
    assert "dataset/train" in on.stdout.rpartition("right (")[2]
    checked = ended_well("check", "--home", home, **options)
    assert "tasks: dataset/train" in checked.stdout and "(this home)" in checked.stdout

    shutil.copytree(home, folder / "copy", ignore=shutil.ignore_patterns("*.sock"))
    for words in (("ask",), ("run", *FEW, "--max-rounds", 6), ("check",)):
        moved = ended(*words, "--home", folder / "copy", **options)
        assert moved.returncode and moved.stderr.count("\n") == 1
        assert "was trained with dataset.file sums.csv" in moved.stderr
    otherwise = ("--environment.tasks", "gcd/tiny", "--max-rounds", 5)
    other = ended_well(*run, *otherwise, **options)
    assert "gcd/tiny (before: the default), in place of dataset.file sums.csv" in other.stdout
    assert "gcd/tiny" in other.stdout.rpartition("right (in training")[2]

    (folder / "sums.csv").write_text(ROWS + "9 + 9 =,18\n")
    again = ended_well(*run, *file, "--max-rounds", 6, **options)
    assert "dataset.file sums.csv (before: the default)" in again.stdout
    (folder / "sums.csv").write_text(ROWS)
    changed = ended("run", "--home", home, **options)
    assert "sums.csv has changed since this home was trained on it" in changed.stderr
    assert shlex.split(changed.stderr)[-5] == str(folder / "sums.csv")


def test_a_backup_carries_what_a_home_asks_and_no_record_of_its_user(folder: Path) -> None:
    options: Any = {"cwd": folder, "env": {**os.environ, "XDG_STATE_HOME": str(folder / "state")}}
    asked = ("--environment.tasks", "gcd/tiny", "--dataset.file", "sums.csv")
    ended_well("run", "--home", folder / "home", *FEW, *asked, "--max-rounds", 1, **options)
    ended_well("home", "backup", "home.backup", "--home", folder / "home", **options)
    content = (folder / "home.backup").read_bytes()
    assert b"asks.toml" in content and b"homes.json" not in content
    ended_well("home", "restore", "home.backup", "--home", folder / "new", **options)
    restored = ended("ask", "--home", folder / "new", **options)
    assert "was trained with dataset.file sums.csv" in restored.stderr
    named = ended_well("ask", "--home", folder / "new", "--dataset.file", "sums.csv", **options)
    assert "environment.tasks gcd/tiny" in named.stderr
