"""The commands on the pages about what users bring are run as they stand there."""

import re
import shlex
from pathlib import Path

import pytest

from tests.commands import ended

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PAGES = ("questions", "hub")


def commands(page: str) -> list[list[str]]:
    """What stands in blocks of bash, without the name of the program."""
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text()
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines() if line.startswith("swarm-node")]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    for folder in ("examples", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    found = commands(page)
    assert len(found) > 1
    for arguments in found:
        few = ["--questions", 16] if arguments[0] == "eval" else []
        flag = "--network.no-enabled"
        alone = [flag] if arguments[0] == "run" and flag not in arguments else []
        done = ended(*arguments, *few, *alone, cwd=tmp_path)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"


def test_a_person_answers_as_the_page_says(tmp_path: Path) -> None:
    (arguments,) = [each for each in commands("contribute") if "--human" in each]
    done = ended(*arguments, cwd=tmp_path, input="\n".join(map(str, range(1, 9))) + "\n")
    assert done.returncode == 0, done.stderr
    assert "reward" in done.stdout and "stopped after" in done.stdout
