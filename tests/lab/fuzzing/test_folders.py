"""Payloads in the fields of a stranger's folder, of a backup and of a page's forms: the fast part
of the corpus.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.fuzzing.folders import HOLES
from lab.fuzzing.homes import readers
from lab.fuzzing.stranger import MARK, documents, payloads, places
from tests import preloaded
from tests.waiting import PATIENCE


def corpus(*options: str) -> tuple[int, dict[str, int]]:
    """Runs the corpus in a process of its own, as an audit hook stays as long as its
    interpreter.
    """
    line = [*preloaded.python(), "-m", "lab.fuzzing.folders", "--json", *options]
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
    code, found = corpus("--part", "fields", "--some", "173")
    assert code == 0 and found["executions"] == 0 and found["cases"] > 150


@pytest.mark.slow
def test_holes_that_are_planted_are_found() -> None:
    """One of them is an earlier `doctor`, which took its tasks from the manifest."""
    code, found = corpus("--holes")
    assert code == 0 and all(found[hole] > 0 for hole in HOLES)


@pytest.mark.slow
@pytest.mark.parametrize("hole", ["command", "options"])
def test_a_new_command_that_reads_a_new_file_is_tried_without_being_registered(hole: str) -> None:
    """And so is the hole that homes once had: their files set every option of every command."""
    code, found = corpus("--planted", hole, "--some", "3" if hole == "command" else "1")
    assert code == 1 and found["executions"] > 0, found


@pytest.mark.slow
def test_no_command_runs_what_a_strangers_home_says() -> None:
    code, found = corpus("--part", "commands", "--command", "check", "--some", "41")
    assert code == 0 and found["inputs"] >= 8 and found["files"] >= 4
    assert found["executions"] == found["tracebacks"] == found["raised"] == found["hung"] == 0


def test_every_command_with_a_home_is_in_the_corpus() -> None:
    names = {reader.name for reader in readers()}
    assert names >= {
        *("run", "bootstrap", "pause", "resume", "status", "peers", "doctor", "check"),
        *("model eval", "model export", "model push", "home id", "home backup", "home restore"),
        *("ask", "contribute", "page", "join", "invite"),
    }
    without = {"simulate", "task try", "view plot", "swarm key", "swarm show"}
    assert not names & without


def test_what_a_command_looks_at_is_noted(tmp_path: Path) -> None:
    """In a process of its own, as it stays for good."""
    program = """if True:
        import sys
        from pathlib import Path
        from lab.fuzzing.homes import noting
        home, opened, asked = Path(sys.argv[1]), set(), set()
        with noting(home, opened, asked):
            (home / "a" / "opened").write_text("x")
            (home / "asked").exists()
            (home / "missing").is_symlink()
            Path(home.parent, "other").exists()
            [*(home / "a").iterdir()]
        print(*sorted(opened), "-", *sorted(asked))
    """
    (tmp_path / "home" / "a").mkdir(parents=True)
    line = [sys.executable, "-c", program, str(tmp_path / "home")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.split() == ["a", "a/opened", "-", "asked", "missing"]
