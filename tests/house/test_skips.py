"""A run that may skip only GPU tests names other skipped tests and fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ENDS_SECONDS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
GPU = "@pytest.mark.gpu\n@pytest.mark.skip(reason='no device')\ndef test_gpu(): pass\n"
TOOL = "@pytest.mark.skip(reason='no tool')\ndef test_tool(): pass\n"
LIBRARY = "pytest.importorskip('no_such_library')\n"
RUNS = "def test_runs(): pass\n"


def run(folder: Path, *flags: str, **files: str) -> "subprocess.CompletedProcess[str]":
    for name, content in files.items():
        (folder / f"test_{name}.py").write_text(f"import pytest\n{content}")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = gpu\n")
    plugins = ["-p", "tests.skips", "-p", "xdist", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, *flags, str(folder)]
    # Options of our own run
    plain = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    plain["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # hypothesis takes two seconds to load
    where = {"env": plain, "cwd": ROOT, "timeout": ENDS_SECONDS}
    return subprocess.run(command, capture_output=True, text=True, check=False, **where)


def test_only_what_is_marked_may_be_skipped(tmp_path: Path) -> None:
    good = run(tmp_path, "--no-skips-but", "gpu", "-n", "2", gpu=GPU, runs=RUNS)
    assert good.returncode == 0, good.stdout
    assert "::test_gpu: no device" in good.stdout
    bad = run(tmp_path, "--no-skips-but", "gpu", "-n", "2", tool=TOOL, library=LIBRARY)
    assert bad.returncode == 1, bad.stdout
    assert (
        "::test_tool: no tool" in bad.stdout and "could not import 'no_such_library'" in bad.stdout
    )
    assert (
        "2 of these must run here" in bad.stdout
        and "1 passed, 3 skipped" in bad.stdout.splitlines()[-1]
    )
