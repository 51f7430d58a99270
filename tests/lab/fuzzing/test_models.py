"""Model folders of a stranger: the fast part of the corpus."""

import json
import subprocess

import pytest

from lab.fuzzing.models import HOLES, MARK, VALUES, folders
from tests import preloaded
from tests.waiting import PATIENCE


def corpus(*options: str) -> tuple[int, dict[str, int]]:
    """Runs the corpus in a process of its own, which forks one for each folder."""
    line = [*preloaded.python(), "-m", "lab.fuzzing.models", "--json", *options]
    done = subprocess.run(line, capture_output=True, text=True, timeout=10 * PATIENCE, check=False)
    assert done.stdout.strip(), done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return done.returncode, found


def test_every_kind_of_folder_is_in_the_corpus() -> None:
    every = list(folders())
    assert len(every) > 2000 and MARK in VALUES["controls"]
    assert len({(folder.kind, folder.name) for folder in every}) == len(every)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_folder_runs_raises_hangs_or_controls_the_terminal() -> None:
    code, found = corpus("--some", "97")
    assert code == 0, found
    assert found["folders"] > 20 and found["loaded"] and found["refused"]
    for fault in ("executions", "tracebacks", "raised", "hangs", "controls"):
        assert found[fault] == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_holes_that_are_planted_are_found() -> None:
    code, found = corpus("--holes")
    assert code == 0 and all(found[hole] > 0 for hole in HOLES), found
