"""The commands on the pages about questions, task sets, exporting and contributing are run as they
stand there.
"""

import os
import re
import shlex
from pathlib import Path

import pytest

from lab.benchmarks.served import api_on_loopback, choices
from tests.commands import ended_well
from tests.hub_stand_in import TOKEN, hub_on_loopback

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"


def commands(page: str) -> list[list[str]]:
    """The swarm-node commands in the blocks of bash, without the name of the program."""
    blocks = re.findall(r"```bash\n(.*?)```", (HOW_TO / f"{page}.md").read_text(), re.DOTALL)
    return [
        shlex.split(line)[1:]
        for block in blocks
        for line in block.splitlines()
        if line.startswith("swarm-node")
    ]


@pytest.mark.parametrize("page", ["questions", "tasksets"])
def test_the_commands_of_a_page_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    for folder in ("examples", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    found = commands(page)
    assert found
    for arguments in found:
        few = {
            "model": ["--questions", 16],
            "run": ["--round.questions", 4, "--validation.questions", 8],
        }
        flag = "--network.no-enabled"
        alone = [flag] if arguments[0] == "run" and flag not in arguments else []
        ended_well(*arguments, *few.get(arguments[0], []), *alone, cwd=tmp_path)


@pytest.mark.long  # tests/core/hub runs, exports and pushes as well
def test_a_model_leaves_the_home_as_the_page_says(tmp_path: Path) -> None:
    with hub_on_loopback() as hub:
        known = {
            "HF_ENDPOINT": hub.address,
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": TOKEN,
            "HF_HUB_DISABLE_XET": "1",
        }
        environment = {**os.environ, **known, "HF_HOME": str(tmp_path / "hf")}
        leaving = [found for found in commands("use_the_model") if "runs/out" in found]
        assert [found[:2] for found in leaving[1:]] == [
            ["model", "export"],
            ["model", "export"],
            ["model", "push"],
        ]
        for arguments in leaving:
            named = [each.replace("NAME/MODEL", "me/model") for each in arguments]
            ended_well(*named, cwd=tmp_path, env=environment)
    assert (tmp_path / "runs" / "gguf" / "model.gguf").exists()


def test_a_server_is_asked_as_the_page_says(tmp_path: Path) -> None:
    (arguments,) = commands("contribute")
    with api_on_loopback(
        lambda handler, body: handler.say(choices(*map(str, range(body["n"]))))
    ) as api:
        named = [re.sub(r"http://\S+", api.address, each) for each in arguments]
        few = ("--max-rounds", 1, "--network.no-enabled", "--home", tmp_path / "home")
        done = ended_well(*named, *few, cwd=tmp_path)
    assert "stopped after" in done.stdout and api.asked
