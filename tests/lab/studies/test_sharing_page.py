"""docs/results/sharing.md and README say what the raw numbers beside them say."""

import json
import re
from pathlib import Path
from statistics import fmean

import pytest

from swarm_node.extensions.simulation.statistics import ci95

ROOT = Path(__file__).parents[3]
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


def text(page: Path) -> str:
    return " ".join(page.read_text(encoding="utf-8").split())


def test_the_gain_at_the_rarest_setting_and_the_tokens_are_those_of_the_runs():
    gain = fmean(raw("rarest")["4/4"]["cumulative_reward"]) / fmean(raw("rarest")["8/0"]["cumulative_reward"])
    for page in (RESULTS / "sharing.md", ROOT / "docs" / "explanation" / "sharing.md"):
        assert f"{gain:.1f} times as much" in text(page), page
    tokens = [raw(starter)["4/4"]["trained_tokens"] / raw(starter)["8/0"]["trained_tokens"] for starter in STARTERS]
    assert f"{min(tokens):.1f} to {max(tokens):.1f} times" in text(RESULTS / "sharing.md")


def compared(case: str) -> dict[str, dict]:
    """4/4 against 8/0 by figure."""
    content = json.loads((RESULTS / "sharing" / "specialists.json").read_text())["comparisons"][case]
    return {figure: each for figure, every in content.items() for each in every if each["name"] == "4/4"}


def test_the_headline_is_that_of_the_corrected_comparison():
    row = r"^\| ([^|]+) \|([^|]*)\|([^|]*)\| ([\d.]+)x \| [\d.]+x \|$"
    rows = [[cell.strip() for cell in found] for found in re.findall(row, PAGE, flags=re.MULTILINE)]
    corrected = {what: (alone, shared, float(ratio)) for what, alone, shared, ratio in rows}
    alone, shared, _ = corrected["accuracy at the end, all nine tasks"]
    claims = [
        f"{float(shared):.0%} of held-out questions".replace("%", " %"),
        f"{float(alone):.0%} alone".replace("%", " %"),
        f"{corrected['all nine tasks, at equal CPU time'][2]:.1f} times as much at equal CPU time",
        f"{corrected['all nine tasks, at equal trained tokens'][2]:.1f} times at equal trained tokens",
        f"{1 - corrected['tasks that a node asks'][2]:.0%} less".replace("%", " %"),
    ]
    for page in (ROOT / "README.md", ROOT / "docs" / "explanation" / "sharing.md"):
        for claim in claims:
            assert claim in text(page), (page, claim)
    for what, (before, after, ratio) in corrected.items():
        if before:
            assert float(after) / float(before) == pytest.approx(ratio, abs=0.005), what
    generalists = compared("generalists")
    assert f"{generalists['final']['ratio'] - 1:.0%} more".replace("%", " %") in text(page)
    lost = 1 - generalists["trained_tokens"]["ratio"]
    assert f"{lost:.0%} less at equal trained tokens".replace("%", " %") in text(page)


def test_the_figures_of_specialists_and_generalists_are_those_of_their_runs():
    pytest.importorskip("scipy", reason="extra studies")
    from lab.studies.specialists import LABELS, table
    from lab.studies.statistics import Comparison

    found = json.loads((RESULTS / "sharing" / "specialists.json").read_text())["comparisons"]["generalists"]
    for line in table({figure: [Comparison(**each) for each in every] for figure, every in found.items()}):
        assert f"| {' | '.join(line)} |" in PAGE, line
    first = {LABELS[figure]: f"{each['ratio']:.2f}x" for figure, each in compared("3 kinds").items()}
    shown = dict(re.findall(r"^\| ([^|]+) \|[^|]*\|[^|]*\| [\d.]+x \| ([\d.]+x) \|$", PAGE, flags=re.MULTILINE))
    assert len(shown) == 4 and shown.items() <= first.items()


def test_the_table_of_samplers_is_that_of_its_runs():
    pytest.importorskip("scipy", reason="extra studies")
    from lab.studies.statistics import Comparison, compared_line

    content = json.loads((RESULTS / "sharing" / "samplers.json").read_text())
    compared = [each for part in ("selection", "confirmation") for every in content[part].values() for each in every]
    assert len(compared) > 1
    for each in compared:
        assert f"| {' | '.join(compared_line(Comparison(**each)))} |" in PAGE, each["name"]
