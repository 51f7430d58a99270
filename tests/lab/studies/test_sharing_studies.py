"""The runs of the studies of sharing, and what is made of their reports; no simulation runs
here.
"""

import argparse
import json
from dataclasses import replace

import pytest

pytest.importorskip("scipy", reason="extra studies")

from lab.studies import equal_price, runner, samplers
from lab.studies.equal_price import SEEDS, SETTINGS, accuracy, comparisons, spent, strongest
from swarm_node.simulation.arms import all_cells, all_tasks, cell_config, local_tasks
from swarm_node.simulation.main import check

OPTIONS = argparse.Namespace(quick=False, hostile=True, setting="rare")


def test_specialists_ask_three_tasks_each_and_together_all_nine_and_a_generalist_alone_asks_all():
    config = equal_price.run(SETTINGS["rare"], "4/4", 0, 3e-4).config
    assert [len(local_tasks(config, node)) for node in range(6)] == [3] * 6
    assert local_tasks(config, 0) == local_tasks(config, 3) != local_tasks(config, 1)
    assert len(all_tasks(config)) == 9
    config = equal_price.run(SETTINGS["rare"], "generalist", 0, 3e-4).config
    own = cell_config(config, all_cells(config)[0])
    assert (own.nodes, len(local_tasks(own, 0)), own.rounds) == (1, 9, 180)


def runs():
    yield from (samplers.run(OPTIONS, name, 0, 3e-4) for name in samplers.CANDIDATES)
    for name, setting in SETTINGS.items():
        for arm in (*setting.lone, *setting.sharing, equal_price.DEALT):
            run = equal_price.run(setting, arm, 0, 3e-4)
            yield replace(run, name=f"{name}, {run.name}")


def test_every_run_is_one_that_simulate_takes_and_has_a_folder_of_its_own(tmp_path):
    every = list(runs())
    folders = {run.folder(tmp_path) for run in every}
    assert len(folders) == len(every) == len(samplers.CANDIDATES) + 20
    for run in every:
        assert len(check(run.config)) == 1
    hostile = samplers.run(OPTIONS, "uniform", 0, 3e-4).config
    assert hostile.attack.share == 0.25 and "rescue" in hostile.defence.layers


def report(nodes, speed, cost):
    """Accuracy after 2 and 4 rounds, which goes up by `speed` a round, half as fast on others'
    tasks. A round costs each of the nodes `cost` seconds, 10 generated tokens and as many trained
    ones.
    """
    at, tokens = [2, 4], [[20 * nodes, 40 * nodes]]
    kinds = {"all_tasks": speed, "local_tasks": speed, "other_tasks": speed / 2}
    held_out = {"rounds": at, "generated_tokens": tokens, "trained_tokens": tokens}
    held_out |= {kind: [[each * rounds for rounds in at]] for kind, each in kinds.items()}
    seconds = [[nodes * cost * (number + 1) for number in range(4)]]
    arm = {"held_out": held_out, "node_rewards": [[0.0] * nodes]}
    return {"arms": {"a": arm}, "cost": {"a": {"cpu_seconds": seconds}}}


def test_arms_are_compared_where_each_learner_has_spent_what_the_cheaper_one_spent_in_all():
    setting = replace(
        SETTINGS["rare"], lone={"alone": "", "generalist": ""}, sharing={"4/4": "", "8/4": ""}
    )
    arms = {"4/4": report(6, 0.1, 3.0), "8/4": report(6, 0.05, 1.0), "alone": report(6, 0.02, 1.0)}
    arms["generalist"] = report(1, 0.08, 2.0)
    reports = {(name, seed): each for name, each in arms.items() for seed in SEEDS[:2]}
    assert spent(arms["4/4"], "cpu_seconds") == [6.0, 12.0]
    assert spent(arms["generalist"], "GPU, G 1") == [40.0, 80.0]
    assert accuracy(arms["4/4"], "all_tasks", "cpu_seconds", 9.0) == pytest.approx(0.3)
    found = comparisons(setting, reports)
    by_name = {each.name: each for each in found["cpu_seconds"]}
    against = by_name["4/4 : generalist, all tasks"]
    # After 8 seconds each
    assert (against.mean, against.base) == pytest.approx((0.1 * 8 / 3, 0.32))
    assert by_name["4/4 : alone, others' tasks"].base == pytest.approx(0.04)
    assert against.p_holm == 1.0 and len(by_name) == 8
    assert strongest(found)["rounds"].name == "4/4 : generalist, all tasks"
    assert strongest(found)["rounds"].ratio == pytest.approx(1.25)


class Foretold(samplers.Study):
    """Runs that end as told: by candidate, accuracy on local and others' tasks at the rate 1.5e-4,
    and at others.
    """

    def __init__(self, told, tmp_path):
        super().__init__(
            argparse.Namespace(hostile=False, quick=False, setting="rare", out=tmp_path)
        )
        self.told, self.asked = told, []

    def ask(self, runs):
        self.asked += runs
        at = {run.key: self.told[run.name][run.rate != 1.5e-4] for run in self.asked}
        keys = ("name", "rate", "seed", "final_local", "final_other")
        self.rows = [dict(zip(keys, (*key, *ends), strict=True)) for key, ends in at.items()]
        return True


def test_what_is_confirmed_is_nearest_to_what_is_wanted_each_at_the_rate_that_suits_it(tmp_path):
    told = {
        "alone": ((0.5, 0.1), (0.4, 0.2)),
        "uniform": ((0.4, 0.4), (0.1, 0.4)),
        "8/8": ((0.3, 0.5), (0.2, 0.5)),
    }
    told |= {"8/4": ((0.4, 0.2), (0.49, 0.3)), "adaptive": ((0.49, 0.35), (0.3, 0.5))}
    study, names = Foretold(told, tmp_path), [name for name in told if name != "alone"]
    rates = study.rates(names)
    assert (
        rates["alone", "final_local"] < rates["alone", "final_other"]
        and rates["8/4", "final_local"] > 1.5e-4
    )
    found = study.compared(names, range(3), rates)
    assert samplers.picked(found) == ["adaptive", "8/4"]
    assert [each.name for each in found["final_other"]] == ["8/8", "uniform", "adaptive", "8/4"]
    assert [each.ratio for each in found["final_local"] if each.name == "8/4"] == pytest.approx(
        [0.98]
    )


def test_rows_of_an_earlier_session_need_no_run(tmp_path, capsys):
    options = argparse.Namespace(
        quick=False, hostile=False, setting="rare", runs=tmp_path, cores=1, cost=True, report=False
    )
    asked = [samplers.run(options, "uniform", seed, 3e-4) for seed in range(2)]
    (tmp_path / "a.csv").write_text(
        "name,arm,seed,rate,final_local,final_other\nuniform,4/4,1,0.0003,0.5,\n"
    )
    runner.do(asked, options, tmp_path / "a.csv")
    assert "1 to do" in capsys.readouterr().out
    assert [each["final_local"] for each in runner.listed(asked, tmp_path, tmp_path / "a.csv")] == [
        0.5
    ]


def test_what_the_figure_shows_is_kept_and_drawn_without_the_runs(tmp_path) -> None:
    setting = SETTINGS["rare"]
    reports = {
        (name, SEEDS[k]): report(6, 0.1 + k / 10, 1.0) for name in ("alone", "4/4") for k in (0, 1)
    }
    reports |= {("4/4", 999): report(6, 9.0, 1.0)}  # of another study
    kept = json.loads(json.dumps(equal_price.curves(setting, reports)))
    assert kept["generated_tokens"]["4/4"] == {
        "price": [20.0, 40.0],
        "accuracy": [[0.2, 0.4], [0.4, 0.8]],
    }
    assert kept["cpu_seconds"]["alone"]["price"] == [2.0, 4.0]
    equal_price.draw(setting, kept, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
