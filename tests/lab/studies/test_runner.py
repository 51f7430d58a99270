"""Runs of a study: their folders, their cost and their results."""

import argparse
import csv
import json

import pytest

from lab.studies import runner


@pytest.fixture
def run():
    return runner.make("3 kinds, 4/4", "4/4", 7, 3e-4, model={"name": "rare"}, rounds=10, nodes=2)


def write(run, folder, **changes):
    arm = {
        "cumulative_reward": [5.0],
        "final_reward": [0.5],
        "trained_tokens": 10,
        "generated_tokens": 20,
    }
    arm["held_out"] = {"final": [0.4], "final_local": [0.5], "final_other": [None], "area": [0.3]}
    cost = {"seconds": [12.0], "wall_seconds": [[6.0, 12.0]], "cpu_seconds": [[5.0, 11.0]]}
    path = run.folder(folder) / "report.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"arms": {"4/4": {**arm, **changes}}, "cost": {"4/4": cost}}))


def options(folder, **changes):
    plain = {
        "cores": 2,
        "at_most": None,
        "report": False,
        "cost": False,
        "engine": "memory",
        "ray_address": "",
    }
    return argparse.Namespace(**{"runs": folder, **plain, **changes})


def test_a_run_has_one_arm_one_seed_and_a_folder_of_its_own(run, tmp_path):
    config = run.config
    assert (config.arms, config.seeds, config.seed, config.rounds) == (("4/4",), 1, 7, 10)
    assert (config.model.name, config.training.learning_rate) == ("rare", 3e-4)
    assert run.folder(tmp_path) == tmp_path / "3_kinds_4-4" / "0.0003" / "7"


def test_what_is_missing_is_said_with_its_cost_before_anything_begins(run, tmp_path, capsys):
    assert runner.do([run], options(tmp_path, cost=True)) is False
    assert "1 runs, 0 done; 1 to do: about 0.0 hours of a core" in capsys.readouterr().out
    assert not run.folder(tmp_path).exists()


def test_what_is_done_is_not_done_again_and_no_more_than_asked_is_begun(run, tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(runner, "_one", lambda run, folder: begun.append(run.seed))
    others = [runner.make("3 kinds, 4/4", "4/4", seed, 3e-4) for seed in (8, 9, 10)]
    write(run, tmp_path)
    most = options(tmp_path, at_most=2, cores=1)
    runner.do([run, *others], most)
    assert begun == [8, 9] and most.at_most == 0


def test_every_run_that_is_done_is_a_row(run, tmp_path):
    write(run, tmp_path)
    missing = runner.make("3 kinds, 4/4", "4/4", 8, 3e-4)
    rows = runner.listed([run, missing], tmp_path, tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open() as file:
        (read,) = csv.DictReader(file)
    assert (read["name"], read["seed"], read["final"], read["cpu_seconds"]) == (
        "3 kinds, 4/4",
        "7",
        "0.4",
        "11.0",
    )
    assert runner.by_seed(rows, "3 kinds, 4/4", "area", range(8)) == {7: 0.3}
    assert runner.by_seed(rows, "3 kinds, 4/4", "final_other", range(8)) == {}
    with pytest.raises(runner.NotDone):
        runner.needed(missing, tmp_path)
