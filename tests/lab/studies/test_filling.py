"""What filled places bring: the runs of the study, and comparisons by hand."""

import argparse
import json
import subprocess
from typing import Any

import pytest

pytest.importorskip("scipy", reason="extra studies")

from lab.studies import filling, samplers
from swarm_node.simulation.arms import all_cells, cell_config
from swarm_node.simulation.main import check
from tests import preloaded


def report(accuracies, per_round=10.0, rewards=(0.0, 0.0), nodes=2, **groups) -> dict[str, Any]:
    """Evaluations after 1, 2, ... rounds; a round costs each node so many tokens and seconds."""
    rounds = [index + 1 for index in range(len(accuracies))]
    tokens = [[nodes * per_round * done for done in rounds]]
    held_out = {"rounds": rounds, "all_tasks": [list(accuracies)]}
    held_out |= {"generated_tokens": tokens, "trained_tokens": tokens}
    arm = {"held_out": held_out, "node_rewards": [[0.0] * nodes], "rewards": [list(rewards)]}
    arm["metrics"] = {name: [of] for name, of in groups.items()}
    return {"questions": 9, "arms": {"a": arm}, "cost": {"a": {"cpu_seconds": tokens}}}


def test_arms_are_compared_where_both_have_spent_what_the_cheaper_one_spent() -> None:
    cheap, dear = report([0.1, 0.2]), report([0.2, 0.6], per_round=20.0)
    found = filling.in_pairs_of({"4/4": [cheap], "4/8": [dear]}, "4/4")
    by_axis = {axis: (each.base, each.mean) for axis, (each,) in found.items()}
    assert by_axis["rounds"] == (0.2, 0.6)
    for axis in ("generated_tokens", "trained_tokens", "cpu_seconds"):
        # After 20 tokens of each node the dear arm has done one round
        assert by_axis[axis] == (0.2, 0.2)


def test_rewards_are_those_of_a_completion_and_groups_those_of_a_node_and_round() -> None:
    informative = {"local_informative": [4.0, 8.0], "external_informative": [8.0, 8.0]}
    made = report([0.1, 0.2], rewards=(0.9, 1.8), **informative)
    assert filling.reward(made) == pytest.approx(0.15)
    (row,) = filling.spending({"4/4": [made]})
    assert row == ["4/4", "20", "20", "20", "6.00", "8.00", "0.00"]


def test_every_run_is_one_that_simulate_takes_and_has_a_folder_of_its_own(tmp_path) -> None:
    runs = {
        (part.model, name): filling.run(part, name, 7000)
        for part in filling.PARTS.values()
        for name in part.arms
    }
    runs["specialists", ""] = filling.specialist(7000)
    assert len({run.folder(tmp_path) for run in runs.values()}) == len(runs)
    assert all(len(check(run.config)) == 1 for run in runs.values())
    mixes = {
        key: cell_config(run.config, all_cells(run.config)[0]).round for key, run in runs.items()
    }
    most = {name: mixes["very_rare", name].most_external for name in filling.PLACES}
    assert most == {"4/4": 4, "4/8": 8, "4/4 fill": 8, "default": 4, "default fill": 8}
    assert mixes["very_rare", "4/4 fill, 1 pair"].external_pairs == 1
    assert mixes["very_rare", "4/4, prefix"].prefix == 2


def test_specialists_differ_from_those_of_the_study_of_samplers_in_filled_places_alone() -> None:
    options = argparse.Namespace(quick=False, hostile=False, setting="rare")
    before = samplers.run(options, "defended 8/4", 5100, filling.SHARING_RATE).config
    after = filling.specialist(5100).config
    assert after.round.fill == filling.FILLED and before.round.fill == 0
    plain = after.round.model_copy(update={"fill": 0})
    assert after.model_copy(update={"round": plain}) == before
    assert filling.specialist(5100, fill=0).config == before


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_specialists_with_filled_places_are_compared_with_others_of_the_same_code(tmp_path) -> None:
    """The rows that docs/results/sharing keeps were made by earlier code."""
    command = [*preloaded.python(), "-m", "lab.studies.filling", "specialists", "--quick", "--json"]
    command += ["--runs", str(tmp_path), "--cores", "1"]
    done = subprocess.run(command, text=True, capture_output=True, check=True, timeout=800).stdout
    assert "2 runs, 0 done; 2 to do" in done
    compared = json.loads(done.splitlines()[-1])
    first = [compared[figure][0]["name"] for figure in filling.ALONE_RATES]
    assert first == ["against defended 8/4"] * 2


def test_arms_of_one_starter_share_rounds_rate_and_seeds() -> None:
    for model in ("very_rare", "rarest", "dense"):
        parts = [part for part in filling.PARTS.values() if part.model == model]
        assert len({(part.rounds, part.rate, part.every) for part in parts}) == 1
    assert not set(filling.SEEDS) & set(filling.FRESH)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_study_runs_from_end_to_end_on_tiny_sizes_and_goes_on_where_it_stopped(
    tmp_path,
) -> None:
    command = [*preloaded.python(), "-m", "lab.studies.filling", "prefix", "--quick", "--json"]
    command += ["--runs", str(tmp_path), "--cores", "1"]
    first, again = (
        subprocess.run(command, text=True, capture_output=True, check=True, timeout=800).stdout
        for _ in range(2)
    )
    assert "2 runs, 0 done; 2 to do" in first and "2 runs, 2 done; 0 to do" in again
    last = [json.loads(output.splitlines()[-1]) for output in (first, again)]
    assert last[0] == last[1] and set(last[0]["comparisons"]) == {*filling.AXES, "reward"}
    assert [row[0] for row in last[0]["spending"]] == ["4/4", "4/4, prefix"]
