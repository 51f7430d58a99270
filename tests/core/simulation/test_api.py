"""The names that the simulation adds to `swarm_node`, and the notebook that shows them."""

import os
from pathlib import Path

import pytest

import swarm_node
from swarm_node import UserError, load_report
from swarm_node.simulation import api
from tests.commands import python

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "examples" / "notebook" / "swarm.ipynb"
KERNEL = """
import ast, asyncio, json, sys

async def kernel(names):  # as IPython does: each cell apart, in a loop that runs already
    for cell in json.load(open(sys.argv[1]))["cells"]:
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            await (eval(code, names) or asyncio.sleep(0))

asyncio.run(kernel({}))
"""


def test_the_names_are_those_of_the_package_stand_on_the_page_and_load_no_torch() -> None:
    assert swarm_node.simulate is api.simulate and swarm_node.load_report is api.load_report
    names = (
        "import sys; from swarm_node import load_report, simulate; print('torch' in sys.modules)"
    )
    assert python("-c", names).stdout.strip() == "False"
    page = (ROOT / "docs" / "how-to" / "python.md").read_text()
    assert "`simulate(config)`" in page and "`load_report(path)`" in page


def test_what_is_no_report_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a report"):
        load_report(tmp_path)


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    as_in_a_kernel = {**os.environ, "FORCE_COLOR": "1", "TMPDIR": str(tmp_path)}
    done = python("-c", KERNEL, NOTEBOOK, cwd=tmp_path, env=as_in_a_kernel)
    assert done.returncode == 0, done.stderr
    assert "4 groups published" in done.stdout and "ended: round " in done.stdout
    (log,) = tmp_path.glob("*/node/output.log")
    assert "round 1 " in log.read_text() and "\x1b" not in log.read_text()  # lines, and no panel
