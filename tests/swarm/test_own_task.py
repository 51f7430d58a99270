"""README's quick start, and its file of the user's own, with the pre-trained model: the commands as
README has them, for two rounds.
"""

import re
import shlex
from pathlib import Path

import pytest

from lab.benchmarks.pages import lines
from swarm_node.policy import named
from tests.commands import ended_well

ROOT = Path(__file__).parents[2]
# That of the hub, else that of the package
MODEL = next(filter(lambda name: named.is_whole(named.folder(name)), named.KNOWN), "")


FEW = ("--round.questions", "4", "--generation.num-generations", "4")
with_model = pytest.mark.skipif(
    not MODEL,
    reason="the pre-trained model is not in the cache: make model",
)


def block_below(heading: str) -> list[str]:
    """The lines of the first block of commands below this heading of README."""
    section = (ROOT / "README.md").read_text().partition(f"{heading}\n")[2].partition("\n## ")[0]
    block = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)[0]
    return [line.partition("   #")[0] for line in lines(block)]


@pytest.mark.slow
@with_model
def test_the_quick_start_of_the_readme_trains_and_shows_both_answers(tmp_path: Path) -> None:
    clone, install, *typed = block_below("## Quick start")
    assert clone.startswith("git clone ") and install.startswith("uv tool install ")
    run, ask = (shlex.split(line)[1:] for line in typed)
    assert run == ["run", "--max-rounds", "20"] and ask == ["ask"]
    home = ("--home", str(tmp_path))  # in place of that of whoever runs the tests
    alone = ("--network.host", "127.0.0.1", "--network.no-mdns")
    # The model is named, as no hub may answer where tests run, and a starter would be trained
    quick = (*home, *alone, "--model.name", MODEL, "--validation.questions", "8")
    trained = ended_well(*run[:-1], "2", *quick, *FEW, cwd=ROOT)
    # Which tasks it practises, as it finds out what the model can do
    assert re.search(r"tasks after 2 rounds: \d+ practised", trained.stdout), trained.stdout
    assert "round 1  reward" in trained.stdout
    asked = ended_well(*ask, *home, cwd=ROOT)
    assert "before" in asked.stdout and "after 2 rounds" in asked.stdout


@pytest.mark.slow
@with_model
def test_the_block_of_the_readme_trains_and_shows_both_answers(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition("## Your own task")[2]
    (block,) = re.findall(r"```bash\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    typed = [line.partition("   #")[0].replace("~/tickets", str(tmp_path)) for line in lines(block)]
    run, held_out, ask = (shlex.split(line)[1:] for line in typed)
    run[run.index("--max-rounds") + 1] = "2"
    assert "--network.no-enabled" in run  # README says that the messages stay on this computer
    quick = ("--model.name", MODEL, "--validation.questions", "8")
    trained = ended_well(*run, *quick, *FEW, cwd=ROOT)
    for words in (
        "reads prompt -> answer, exact: 200 rows",
        "tickets.csv stay on this machine",
        "validation after 0 rounds",
        "round 1  reward",
        "right (held out, ",
        "dataset/held_out",
        f"swarm-node ask --home {tmp_path}",
    ):
        assert words in trained.stdout
    shown = ended_well(*held_out, *quick, cwd=ROOT)
    assert "after 2 rounds" in shown.stdout and " ->" in shown.stdout
    asked = ended_well(*ask, *quick, cwd=ROOT)
    assert (
        "before" in asked.stdout
        and "after 2 rounds" in asked.stdout
        and "The lamp is broken ->" in asked.stdout
    )
