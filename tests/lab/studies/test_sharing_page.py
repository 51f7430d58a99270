"""docs/results/sharing.md and README say what the raw numbers beside them say."""

import json
import re
from pathlib import Path
from statistics import fmean

import pytest

from lab.studies.equal_price import shown
from swarm_node.simulation.report import ci95

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "results"
STARTERS = ("dense", "rare", "very_rare", "rarest")
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (RESULTS / "sharing.md").read_text(encoding="utf-8")


def raw(starter: str) -> dict[str, dict]:
    content = json.loads((RESULTS / "sharing" / f"{starter}.json").read_text())
    return {result["variant"]: result for result in content["results"]}


def cells(arm: str) -> list[str]:
    (line,) = re.findall(
        rf"^\| {arm} \|(.+)\|$", PAGE.split("## Where the gain comes from")[0], flags=re.MULTILINE
    )
    return [cell.strip() for cell in line.split("|")]


@pytest.mark.parametrize("arm", ["8/0", "6/2", "4/4", "2/6"])
def test_the_table_of_arms_is_what_the_runs_earned(arm):
    for starter, cell in zip(STARTERS, cells(arm), strict=True):
        totals = raw(starter)[arm]["cumulative_reward"]
        assert totals == pytest.approx([sum(rewards) for rewards in raw(starter)[arm]["rewards"]])
        assert cell.startswith(f"{fmean(totals):.0f} ± {ci95(totals):.0f}"), (
            f"{starter} {arm}: {cell}"
        )
        if arm != "8/0":
            gain = fmean(totals) / fmean(raw(starter)["8/0"]["cumulative_reward"])
            assert f", {gain:.2f}x" in cell or f", {gain:.1f}x" in cell, f"{starter} {arm}: {cell}"


@pytest.mark.parametrize(
    ("model", "heading"),
    [("rare", "## Against the strongest"), ("smollm2-135m", "## At equal price, on a real model")],
)
def test_the_tables_of_equal_price_are_those_of_their_runs(model, heading):
    content = json.loads((RESULTS / "sharing" / f"equal_price_{model}.json").read_text())[
        "comparisons"
    ]
    section = PAGE.partition(heading)[2].partition("\n## ")[0]
    lines = re.findall(
        r"^\| (.+) \| (.+ : .+), all tasks \| ([\d.]+) \| ([\d.]+) \| ([\d.]+)x \| ([\d.-]+) \|",
        section,
        re.MULTILINE,
    )
    assert len(lines) > 7
    for axis, name, *told in lines:
        (each,) = [each for each in content[axis] if shown(each["name"]) == f"{name}, all tasks"]
        ends = "-".join(f"{end:.2f}" for end in each["ratio_interval"])
        assert told == [f"{each['base']:.3f}", f"{each['mean']:.3f}", f"{each['ratio']:.2f}", ends]
        if (model, name[:5]) == ("smollm2-135m", "2/2 :") and not axis.startswith("GPU"):
            assert f"{told[2]}x ({ends})" in README.replace("*", ""), axis


def test_the_table_of_ways_to_share_is_that_of_its_runs():
    content = json.loads((RESULTS / "sharing" / "never_hurts.json").read_text())
    content["hostile"] = json.loads((RESULTS / "sharing" / "never_hurts_hostile.json").read_text())
    real = json.loads((RESULTS / "sharing" / "never_hurts_smollm2-135m.json").read_text())
    content |= {"real": real["confirmation"], "there": real["longer"]}
    rows, best = (
        [("uniform 4/4", "confirmation", "uniform"), ("8/8 ", "confirmation", "8/8")],
        "defended 8/4",
    )
    rows += [
        ("**def", "confirmation", best),
        ("defended 8/4 : alone", "longer", best),
        ("defended 8/4 : uni", "hostile", best),
        ("defended 8/4 on SmolLM2-135M-Instruct, ", "real", best),
        ("defended 8/4 on SmolLM2-135M-Instruct : alone", "there", best),
    ]
    for row, part, name in rows:
        (line,) = re.findall(rf"^\| {re.escape(row)}.*$", PAGE, re.MULTILINE)
        for figure in ("final_local", "final_other"):
            (each,) = [each for each in content[part][figure] if each["name"] == name]
            told = "{:.2f}x ({:.2f}-{:.2f})".format(each["ratio"], *each["ratio_interval"])
            assert told in line and (part != "there" or told in README.replace("*", "")), (
                row,
                figure,
            )
