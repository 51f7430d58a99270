"""Figures of held-out answers, by hand."""

import json
from dataclasses import replace

import pytest

from swarm_node.simulation.arms import Arm, Cell, FinishedCell, cell_config
from swarm_node.simulation.cell import run_cell, summary
from swarm_node.simulation.report import area, ci95, held_out


def test_area_is_the_mean_over_rounds_by_trapezoids():
    assert area((10, 20, 40), (0.0, 0.2, 0.6)) == pytest.approx((10 * 0.1 + 20 * 0.4) / 30)
    assert area((10,), (0.3,)) == 0.3


@pytest.fixture
def rows(fakes, configure):
    """Three nodes, two evaluated rounds of 20: gcd is known to node 0, then to two of three; lcm to
    nobody.
    """
    config = configure(nodes=3, rounds=2, arms=("8/0",), seeds=1)
    first, second = [(0.5, 0.0), (0.1, 0.1), None], [(0.9, 0.1), (0.7, 0.3), (0.2, 0.2)]
    done = []
    for number, accuracy in enumerate((first, second)):
        by_node = [
            each and dict(zip(("gcd/tiny", "lcm/tiny"), each, strict=True)) for each in accuracy
        ]
        reports = {node: fakes.report(node, number) for node in range(3)}
        one = summary(config, Cell(Arm(8, 0), 0), number, reports, rejected={}, wall=1.0)
        done.append(replace(one, round=10 * number + 9, accuracy=tuple(by_node)))
    return done


def test_accuracy_over_local_and_others_tasks(rows):
    local = [frozenset(["gcd/tiny"]), frozenset(["lcm/tiny"]), frozenset(["gcd/tiny", "lcm/tiny"])]
    record = FinishedCell(Cell(Arm(8, 0), 0), tuple(rows), 1.0)
    found = held_out([record], local)
    assert found is not None and found.rounds == (10, 20)
    assert found.all_tasks[0] == pytest.approx(((0.25 + 0.1) / 2, (0.5 + 0.5 + 0.2) / 3))
    assert found.local_tasks[0] == pytest.approx(((0.5 + 0.1) / 2, (0.9 + 0.3 + 0.2) / 3))
    assert found.other_tasks[0] == pytest.approx(((0.0 + 0.1) / 2, (0.1 + 0.7) / 2))
    assert found.by_task["lcm/tiny"][0] == pytest.approx((0.05, 0.2))
    assert found.final == pytest.approx((0.4,)) and found.final_ci95[0] == pytest.approx(
        ci95([0.5, 0.5, 0.2])
    )


def play(fakes, config):
    cell = Cell(Arm(4, 4), 0)
    own = cell_config(config, cell)
    return list(run_cell(own, cell, fakes.FakePopulation(own), lambda: 0.0, lambda: 0.0))


def test_learners_are_asked_every_so_many_rounds_and_at_the_end_and_nothing_else_changes(
    fakes, configure
):
    asked = play(fakes, configure(evaluate_every=2))
    assert [done.round for done in asked if done.accuracy] == [1, 3, 4]
    assert [replace(done, accuracy=()) for done in asked] == play(fakes, configure())
    assert all(set(node) == {"chain_sum/tiny", "gcd/tiny"} for node in asked[1].accuracy)


@pytest.mark.slow
def test_a_report_with_held_out_accuracy_has_tables_and_a_figure(configure, run):
    path = run(configure(evaluate_every=2, seeds=2))
    arms = json.loads(path.read_text())["arms"]
    assert (
        arms["4/4"]["held_out"]["rounds"] == [2, 4, 5]
        and len(arms["4/4"]["held_out"]["final"]) == 2
    )
    assert "others' tasks" in run.shown and "held out 0." in run.shown
    last = run.shown.rstrip().rpartition("\n\n")[2]
    assert last.startswith("After 5 rounds a node that trained alone answers ")
    assert " ".join(last.split()).endswith("the lowest and the highest in brackets.")
    assert (path.parent / "accuracy.png").stat().st_size > 10_000
