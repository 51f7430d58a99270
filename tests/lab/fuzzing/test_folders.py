"""Payloads in the fields of a stranger's folder, of a backup and of a page's forms: the fast part
of the corpus.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.fuzzing.folders import HOLES
from lab.fuzzing.stranger import MARK, documents, payloads, places
from tests.waiting import PATIENCE


def corpus(*options: str) -> tuple[int, dict[str, int]]:
    """Runs the corpus in a process of its own, as an audit hook stays as long as its
    interpreter.
    """
    line = [sys.executable, "-m", "lab.fuzzing.folders", "--json", *options]
    done = subprocess.run(line, capture_output=True, text=True, timeout=10 * PATIENCE, check=False)
    assert done.stdout.strip(), done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return done.returncode, found


def test_there_are_sixty_payloads_and_every_field_has_a_place(tmp_path: Path) -> None:
    texts = payloads(tmp_path)
    assert len(texts) == len(set(texts)) == 60 and all(MARK in each for each in texts)
    assert sum(len(list(places(content))) for content in documents().values()) > 400


@pytest.mark.slow
def test_nothing_of_a_strangers_folder_runs() -> None:
    code, found = corpus("--some", "173")
    assert code == 0 and found["executions"] == 0 and found["cases"] > 150


@pytest.mark.slow
def test_holes_that_are_planted_are_found() -> None:
    """One of them is an earlier `doctor`, which took its tasks from the manifest."""
    code, found = corpus("--holes")
    assert code == 0 and all(found[hole] > 0 for hole in HOLES)
