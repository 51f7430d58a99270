"""The notebook for a free T4, run by a real kernel on this machine's CPU: every cell as it stands,
installation included.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "examples" / "notebook" / "t4.ipynb"
ENVIRONMENT = ROOT / ".venvs" / "notebook"
INSTALL = "python -m venv .venvs/notebook && .venvs/notebook/bin/pip install nbclient ipykernel"
CELL_SECONDS = 900
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, kernel_name="python3", timeout=float(sys.argv[3])).execute()
nbformat.write(notebook, sys.argv[2])
"""


def cells() -> list[dict[str, Any]]:
    return json.loads(NOTEBOOK.read_text())["cells"]


def written(executed: Path) -> str:
    """All text that the cells of an executed notebook printed."""
    made = json.loads(executed.read_text())["cells"]
    outputs = [output for cell in made for output in cell.get("outputs", [])]
    texts = ("".join(output["text"]) for output in outputs if output["output_type"] == "stream")
    return "".join(texts)


def test_the_committed_notebook_has_no_outputs() -> None:
    code = [cell for cell in cells() if cell["cell_type"] == "code"]
    assert len(code) >= 5
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"]] == []


def test_the_notebook_says_that_nobody_ran_it_on_a_t4() -> None:
    assert "**Nobody has run it on a T4 yet.**" in "".join(cells()[0]["source"])


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """The interpreter of a new environment. It finds a kernel and what this project needs, and not
    this project, which the notebook installs.
    """
    if not ENVIRONMENT.exists():
        pytest.skip(f"needs a kernel: {INSTALL}")
    folder = tmp_path / "kernel"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    # Python 3.11 puts one there that is too old to build this project
    old = [python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools"]
    subprocess.run(old, check=True)
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (tools,) = ENVIRONMENT.glob("lib/python*/site-packages")
    # Files with paths are read in no folder that a file with paths names: so the editable
    # installation of this project stays unknown
    paths = f"{sysconfig.get_path('purelib')}\n{tools}\n"
    (Path(purelib) / "beside.pth").write_text(paths)
    return python


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the checkout: what is built in the checkout itself would stay there."""
    made = ("build", "runs", "*.egg-info", "__pycache__", ".*_cache")
    left_out = shutil.ignore_patterns(".git", ".venv*", ".lease", ".site", "node_modules", *made)
    return shutil.copytree(ROOT, tmp_path / "source", ignore=left_out)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_cell_runs_by_a_real_kernel(tmp_path: Path, kernel: Path, source: Path) -> None:
    home, executed = tmp_path / "home", tmp_path / "executed.ipynb"
    variables = {
        **os.environ,
        "SOURCE": str(source),
        "NODE_HOME": str(home),
        # Nothing is fetched: what it needs is beside it
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # which turns isolation off
        "CUDA_VISIBLE_DEVICES": "",
    }
    variables.pop("PYTHONPATH", None)
    done = subprocess.run(
        [kernel, "-c", EXECUTE, NOTEBOOK, executed, str(CELL_SECONDS)],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    text = written(executed)
    assert "round 19: reward" in text and "ended: round " in text
