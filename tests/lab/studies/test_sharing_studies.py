"""The runs of the studies of sharing, and what is made of their reports; no simulation runs here."""

import argparse
import json

import pytest

pytest.importorskip("scipy", reason="extra studies")

from lab.studies import real_specialists, samplers, specialists
from swarm_node.extensions.simulation.main import check
from swarm_node.extensions.simulation.node_options import all_tasks, local_tasks


def test_specialists_of_three_kinds_ask_three_tasks_each_and_together_all_nine():
    config = specialists.run("3 kinds", "4/4", 0, 3e-4).config
    assert config.nodes == 6 and [len(local_tasks(config, node)) for node in range(6)] == [3] * 6
    assert local_tasks(config, 0) == local_tasks(config, 3) != local_tasks(config, 1)
    assert len(all_tasks(config)) == 9 and config.evaluate_every == 10


def test_generalists_ask_all_and_nine_kinds_one_each():
    config = specialists.run("generalists", "8/0", 0, 3e-4).config
    assert [len(local_tasks(config, node)) for node in range(6)] == [9] * 6
    config = specialists.run("9 kinds", "8/0", 0, 3e-4).config
    assert [len(local_tasks(config, node)) for node in range(9)] == [1] * 9 and len(all_tasks(config)) == 9


OPTIONS = argparse.Namespace(
    quick=False, rounds=60, starter="rare", rate=3e-4, hostile=True, seeds=8, sizes=[2, 8], starters=["dense", "rarest"]
)


def runs():
    yield from (specialists.run(case, arm, 0, 3e-4) for case in specialists.CASES for arm in specialists.ARMS)
    yield from (samplers.run(OPTIONS, name, 0) for name in samplers.CANDIDATES)
    yield from (real_specialists.run(name, 3000) for name in real_specialists.NAMES)


def test_every_run_is_one_that_simulate_takes_and_has_a_folder_of_its_own(tmp_path):
    every = list(runs())
    folders = {run.folder(tmp_path) for run in every}
    assert len(folders) == len(every) == 9 + len(samplers.CANDIDATES) + 4
    for run in every:
        assert len(check(run.config)) == 1
    hostile = samplers.run(OPTIONS, "uniform", 0).config
    assert hostile.attack.share == 0.25 and "rescue" in hostile.defence.layers


def report(nodes, rounds, every):
    """Accuracy goes up by 0.01 a round, half as fast on others' tasks; a round costs each node a second."""
    at = list(range(every, rounds + 1, every))
    kinds = {"all_tasks": 0.01, "local_tasks": 0.01, "other_tasks": 0.005}
    held_out = {"rounds": at, **{kind: [[speed * each for each in at]] for kind, speed in kinds.items()}}
    seconds = [float(nodes * (number + 1)) for number in range(rounds)]
    return {"arms": {"a": {"held_out": held_out}}, "cost": {"a": {"cpu_seconds": [seconds]}}}


def test_a_generalist_is_compared_after_equal_tokens_and_after_equal_time_of_a_node():
    shared, generalist = report(4, 12, 4), report(1, 20, 4)
    shared["cost"]["a"]["cpu_seconds"][0][-1] = 4 * 18.0  # a node that shares spends 18 seconds on its 12 rounds
    found = real_specialists.comparisons({("sharing, 2/2", 3000): shared, ("generalist, 2/0:all", 3000): generalist})
    assert [(each.name, each.mean, each.base) for each in found] == [
        ("generalist: equal tokens", pytest.approx(0.12), pytest.approx(0.12)),
        ("generalist: equal CPU", pytest.approx(0.12), pytest.approx(0.18)),
    ]


def row(name, seed, value):
    return {"name": name, "seed": seed, "rate": 3e-4, **dict.fromkeys(samplers.FIGURES, value)}


def test_what_is_chosen_is_above_uniform_on_the_seeds_that_all_have():
    options = argparse.Namespace(hostile=False, seeds=3)
    rows = [row("uniform", seed, 10.0) for seed in range(3)] + [row("adaptive", seed, 11.0) for seed in range(2)]
    rows += [row("protective", seed, 9.0 + 9 * (seed == 2)) for seed in range(3)]
    names = ["uniform", "adaptive", "protective"]
    assert samplers.picked(rows, names, options) == ["adaptive"]  # the third seed of protective has no pair
    found = samplers.compared(rows, names, range(3), options)["cumulative_reward"]
    assert [(each.name, each.seeds, each.difference) for each in found] == [
        ("adaptive", 2, 1.0),
        ("protective", 2, -1.0),
    ]


def test_arms_are_compared_with_the_first_case_by_case():
    values = {"3 kinds, 8/0": 0.3, "3 kinds, 4/4": 0.45, "generalists, 8/0": 0.5, "generalists, 4/4": 0.5}
    rows = [
        {"name": name, "seed": seed, "rate": 3e-4, **dict.fromkeys(specialists.FIGURES, value + 0.01 * seed)}
        for name, value in values.items()
        for seed in range(4)
    ]
    found = specialists.results(rows, ["3 kinds", "generalists"], ["8/0", "4/4"], range(4))
    (each,) = found["3 kinds"]["final"]
    assert each.difference == pytest.approx(0.15) and (each.p, each.p_holm) == (2 / 16, 2 * 2 / 16)
    assert found["generalists"]["final"][0].p == 1.0


def held_out(tokens: list[int], accuracy: list[float]) -> dict:
    arm = {"held_out": {"rounds": [1, 2], "trained_tokens": [tokens], "all_tasks": [accuracy]}}
    return {"arms": {"any": arm}, "cost": {"any": {"cpu_seconds": [[2.0, 4.0]]}}}


def test_arms_are_compared_where_both_have_spent_what_the_cheaper_one_spent_in_all(tmp_path):
    options = argparse.Namespace(cases=["3 kinds"], arms=["8/0", "4/4"], seeds=1, runs=tmp_path)
    runs = [specialists.run("3 kinds", arm, 0, 3e-4) for arm in options.arms]
    reports = (held_out([100, 200], [0.1, 0.3]), held_out([100, 300], [0.2, 0.6]))
    for run, report in zip(runs, reports, strict=True):
        run.folder(tmp_path).mkdir(parents=True)
        (run.folder(tmp_path) / "report.json").write_text(json.dumps(report))
    (by_tokens,) = specialists.at_equal(runs, options, "trained_tokens")["3 kinds"]
    assert (by_tokens.base, by_tokens.mean) == pytest.approx((0.3, 0.4))  # 200 of 300 tokens: half-way from 0.2 to 0.6
    (by_time,) = specialists.at_equal(runs, options, "cpu_seconds")["3 kinds"]
    assert (by_time.base, by_time.mean) == pytest.approx((0.3, 0.6))
