"""The names that the simulation adds to `swarm_node`, and the notebook that shows them."""

import json
from pathlib import Path

import pytest

import swarm_node
from swarm_node import UserError, load_report
from swarm_node.extensions.simulation import api
from tests.commands import python

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "examples" / "notebook" / "swarm.ipynb"


def test_the_names_are_those_of_the_package_stand_on_the_page_and_load_no_torch() -> None:
    assert swarm_node.simulate is api.simulate and swarm_node.load_report is api.load_report
    names = "import sys; from swarm_node import load_report, simulate; print('torch' in sys.modules)"
    assert python("-c", names).stdout.strip() == "False"
    page = (ROOT / "docs" / "how-to" / "python.md").read_text()
    assert "`simulate(config)`" in page and "`load_report(path)`" in page


def test_what_is_no_report_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no report"):
        load_report(tmp_path)


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"))
    done = python(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 groups published" in done.stdout
