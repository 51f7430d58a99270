"""What a release is made with: workflows and forms that GitHub takes, results that say when and by what they were made."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".venvs" / "release" / "bin"
FORMS = {
    "dependabot": [".github/dependabot.yml"],
    "github-issue-forms": [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/idea.yml"],
    "citation-file-format": ["CITATION.cff"],
}


@pytest.mark.skipif(not TOOLS.is_dir(), reason="needs `make .venvs/release/installed`")
def test_the_platform_understands_workflows_forms_and_citation() -> None:
    commands = [["actionlint"], *(["check-jsonschema", "--builtin-schema", f"vendor.{kind}", *FORMS[kind]] for kind in FORMS)]
    for tool, *words in commands:
        done = subprocess.run([TOOLS / tool, *words], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_actions_are_pinned_by_commit_but_for_one_whose_commit_nobody_could_look_up() -> None:
    used = re.findall(r"uses: (\S+)", "".join(file.read_text() for file in (ROOT / ".github/workflows").iterdir()))
    loose = {name for name in used if not re.search(r"@[0-9a-f]{40}$", name)}
    assert len(used) > 20 and loose == {"pypa/gh-action-pypi-publish@release/v1"}


def test_every_page_of_results_has_command_commit_and_date() -> None:
    done = subprocess.run([sys.executable, "release/results.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "MISSING" not in done.stdout, done.stdout + done.stderr
