"""A program of this machine is asked with a limit on its time and its words, and found in absolute
folders only.
"""

import os
from pathlib import Path

from swarm_node.common.asked import MOST_BYTES, installed, said

HANGS = 600  # seconds; a test that waited for it would be stopped


def program(folder: Path, script: str, name: str = "card-tool") -> str:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)
    return str(file)


def test_a_program_says_what_it_prints_and_nothing_else(tmp_path) -> None:
    tool = program(tmp_path, 'echo "$1"; echo trouble >&2')
    assert said(tool, ["two words"], 60.0) == "two words\n"


def test_a_program_that_fails_says_nothing(tmp_path) -> None:
    assert said(program(tmp_path, "echo 12; exit 3"), [], 60.0) == ""
    assert said(str(tmp_path / "missing"), [], 60.0) == ""
    (tmp_path / "text").write_text("no program")
    assert said(str(tmp_path / "text"), [], 60.0) == ""


def test_a_program_that_hangs_ends_with_all_that_it_started(tmp_path) -> None:
    """What it started holds the pipe, too: to end the program alone would not end the wait."""
    note = tmp_path / "pid"
    tool = program(tmp_path, f"sleep {HANGS} & echo $! > {note}; echo 12; wait")
    assert said(tool, [], 0.5) == ""
    stat = Path(f"/proc/{note.read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_program_without_end_is_stopped_after_so_many_bytes(tmp_path) -> None:
    assert said(program(tmp_path, "while :; do echo 12345678; done"), [], 60.0) == ""
    fits = program(tmp_path, f"head -c {MOST_BYTES - 1} /dev/zero | tr '\\0' x", "other")
    assert len(said(fits, [], 60.0)) == MOST_BYTES - 1


def test_a_program_gets_no_secrets(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert "hf_secret" not in said(program(tmp_path, "env"), [], 60.0)


def test_words_that_are_no_text_are_no_error(tmp_path) -> None:
    assert said(program(tmp_path, r"printf '\377\376'"), [], 60.0) == "��"


def test_a_program_is_not_taken_from_the_folder_in_which_a_command_starts(
    tmp_path, monkeypatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    program(here, "echo stranger")
    monkeypatch.chdir(here)
    for entries in ("", ".", "here", f"{os.pathsep}.", "./"):
        monkeypatch.setenv("PATH", entries)
        assert installed("card-tool") == "", entries
    tool = program(there, "echo ours")
    monkeypatch.setenv("PATH", os.pathsep.join((".", "", str(there))))
    assert installed("card-tool") == tool


def test_a_program_may_lie_where_its_maker_puts_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    tool = program(tmp_path, "echo 1")
    missing = tmp_path / "missing"
    assert installed("card-tool", missing, Path(tool)) == tool
    assert installed("card-tool", missing) == ""
