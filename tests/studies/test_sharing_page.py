"""docs/results/sharing.md and README say what the raw numbers beside them say."""

import csv
import json
import re
from pathlib import Path
from statistics import fmean

import pytest

from swarm_node.simulation.statistics import ci95

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
STARTERS = ("dense", "rare", "very_rare", "rarest")
PAGE = (RESULTS / "sharing.md").read_text(encoding="utf-8")


def raw(starter: str) -> dict[str, dict]:
    content = json.loads((RESULTS / "sharing" / f"{starter}.json").read_text())
    return {result["variant"]: result for result in content["results"]}


def cells(arm: str) -> list[str]:
    (line,) = re.findall(rf"^\| {arm} \|(.+)\|$", PAGE.split("## Where the gain comes from")[0], flags=re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


@pytest.mark.parametrize("arm", ["8/0", "6/2", "4/4", "2/6"])
def test_the_table_of_arms_is_what_the_runs_earned(arm):
    for starter, cell in zip(STARTERS, cells(arm), strict=True):
        totals = raw(starter)[arm]["cumulative_reward"]
        assert totals == pytest.approx([sum(rewards) for rewards in raw(starter)[arm]["rewards"]])
        assert cell.startswith(f"{fmean(totals):.0f} ± {ci95(totals):.0f}"), f"{starter} {arm}: {cell}"
        if arm != "8/0":
            gain = fmean(totals) / fmean(raw(starter)["8/0"]["cumulative_reward"])
            assert f", {gain:.2f}x" in cell or f", {gain:.1f}x" in cell, f"{starter} {arm}: {cell}"


def test_the_headline_and_the_tokens_are_those_of_the_runs():
    gain = fmean(raw("rarest")["4/4"]["cumulative_reward"]) / fmean(raw("rarest")["8/0"]["cumulative_reward"])
    for page in (ROOT / "README.md", RESULTS / "sharing.md", ROOT / "docs" / "explanation" / "sharing.md"):
        text = " ".join(page.read_text(encoding="utf-8").split())
        assert f"{gain:.1f} times as much" in text or f"{gain:.1f} times\nas much" in text, page
    tokens = [raw(starter)["4/4"]["trained_tokens"] / raw(starter)["8/0"]["trained_tokens"] for starter in STARTERS]
    for page in (ROOT / "README.md", RESULTS / "sharing.md"):
        assert f"{min(tokens):.1f} to {max(tokens):.1f} times" in " ".join(page.read_text(encoding="utf-8").split()), (
            page
        )


def test_the_table_of_specialists_is_that_of_their_runs():
    with (RESULTS / "sharing" / "specialists.csv").open() as file:
        runs = {run["arm"]: run for run in csv.DictReader(file)}
    assert [run["seed"] for run in runs.values()] == ["0", "0"], "more seeds are done: give means, intervals and tests"
    for figure, digits in (("final", 3), ("final_local", 3), ("final_other", 3), ("cumulative_reward", 0)):
        values = [f"{float(runs[arm][figure]):.{digits}f}" for arm in ("8/0", "4/4")]
        assert f"| {values[0]} | {values[1]} |" in PAGE, figure
