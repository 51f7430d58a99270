"""A file of the user's own and a pre-trained model, as README's block has them."""

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


@pytest.mark.slow
@pytest.mark.skipif(
    not MODEL,
    reason="the pre-trained model is not in the cache: make model",
)
def test_the_block_of_the_readme_trains_and_shows_both_answers(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition("## Your own task")[2]
    (block,) = re.findall(r"```bash\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    run, ask = (shlex.split(line.replace("~/tickets", str(tmp_path)))[1:] for line in lines(block))
    run[run.index("--max-rounds") + 1] = "2"
    quick = ("--model.name", MODEL, "--network.no-enabled", "--validation.questions", "8")
    few = ("--round.questions", "4", "--generation.num-generations", "4")
    trained = ended_well(*run, *quick, *few, cwd=ROOT)
    for words in (
        "reads prompt -> answer, exact: 200 rows",
        "validation after 0 rounds",
        "round 1  reward",
        "right (held out, ",
        "dataset/held_out",
        f"swarm-node ask --home {tmp_path}",
    ):
        assert words in trained.stdout
    asked = ended_well(*ask, *quick, cwd=ROOT)
    assert (
        "before" in asked.stdout
        and "after 2 rounds" in asked.stdout
        and "The lamp is broken ->" in asked.stdout
    )
