"""Workflows, forms and citation are what GitHub takes, and each page of results says when and by
what it was made.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    not (ROOT / ".venvs" / "release").is_dir(), reason="needs `make .venvs/release/installed`"
)
def test_the_platform_understands_workflows_forms_and_citation_and_each_file_has_a_licence(
    tmp_path: Path,
) -> None:
    # A copy: other tests make files in the tree for a moment, and `reuse` fails where one vanishes.
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, copy, follow_symlinks=False)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".venvs").symlink_to(ROOT / ".venvs")
    subprocess.run(
        ["make", "forms", "--assume-old=.venvs/release/installed"], cwd=tmp_path, check=True
    )


def test_every_page_of_results_has_command_commit_and_date() -> None:
    subprocess.run([sys.executable, ROOT / "release" / "results.py"], check=True)
