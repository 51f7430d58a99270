"""Workflows, forms and citation are what GitHub takes, and each page of results says when and by
what it was made.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    not (ROOT / ".venvs" / "release").is_dir(), reason="needs `make .venvs/release/installed`"
)
def test_the_platform_understands_workflows_forms_and_citation_and_each_file_has_a_licence() -> (
    None
):
    subprocess.run(["make", "forms"], cwd=ROOT, check=True)


def test_every_page_of_results_has_command_commit_and_date() -> None:
    subprocess.run([sys.executable, ROOT / "release" / "results.py"], check=True)
