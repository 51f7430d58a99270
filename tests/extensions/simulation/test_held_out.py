"""Figures of held-out answers, by hand."""

import json
from dataclasses import asdict, replace

import pytest

from protocol.messages import Question
from swarm_node.common.files import plain
from swarm_node.extensions.simulation.arms import Arm, Cell, cell_config
from swarm_node.extensions.simulation.cell import run_cell, summary
from swarm_node.extensions.simulation.folder import Record, read_round
from swarm_node.extensions.simulation.held_out import Answers, accuracy, figures, most_frequent
from swarm_node.extensions.simulation.learned import adoption, area, held_out


def question(index: int) -> Question:
    return Question(environment="reasoning_gym", version="1", dataset="gcd", config_id="tiny", seed=1, index=index)


def answers(*pairs, task="gcd/tiny", entropy=1.0) -> Answers:
    return Answers(task, tuple(text for text, _ in pairs), tuple(float(reward) for _, reward in pairs), entropy)


ONE = {question(0): answers(("3", 1), ("3", 1), ("4", 0), ("5", 0)), question(1): answers(*[("7", 0)] * 4, entropy=3.0)}
OTHER = {question(0): answers(("4", 0), ("4", 0), ("3", 1), ("6", 0)), question(1): answers(*[("7", 0)] * 4)}


def test_accuracy_is_the_mean_reward_of_a_completion_by_task():
    both = {**ONE, question(2): answers(("1", 1), ("1", 1), task="lcm/tiny")}
    assert accuracy(both) == {"gcd/tiny": 0.25, "lcm/tiny": 1.0}


def test_figures_of_two_nodes():
    found = figures([ONE, OTHER])
    # distinct: 3 of 4, 1 of 4, 3 of 4, 1 of 4; the nodes agree on the second question alone
    assert found == {"pass_at_k": 0.5, "distinct": 0.5, "entropy": 1.5, "agreement": 0.5}


def test_one_node_has_nobody_to_agree_with_and_none_has_no_figures():
    assert "agreement" not in figures([ONE]) and figures([]) == {}


def test_of_equally_frequent_texts_the_first_in_the_alphabet():
    assert most_frequent(["b", "a", "b", "a", "c"]) == "a"


def test_area_is_the_mean_over_rounds_by_trapezoids():
    assert area((10, 20, 40), (0.0, 0.2, 0.6)) == pytest.approx((10 * 0.1 + 20 * 0.4) / 30)
    assert area((10,), (0.3,)) == 0.3


@pytest.fixture
def rows(fakes, configure):
    """Three nodes, two evaluated rounds of 20: gcd is known to node 0, then to two of three; lcm to nobody."""
    config = configure(nodes=3, rounds=2, arms=("8/0",), seeds=1)
    first = [{"gcd/tiny": 0.5, "lcm/tiny": 0.0}, {"gcd/tiny": 0.1, "lcm/tiny": 0.1}, None]
    second = [
        {"gcd/tiny": 0.9, "lcm/tiny": 0.1},
        {"gcd/tiny": 0.7, "lcm/tiny": 0.3},
        {"gcd/tiny": 0.2, "lcm/tiny": 0.2},
    ]
    done = []
    for number, by_node in enumerate((first, second)):
        reports = {node: fakes.report(node, number) for node in range(3)}
        one = summary(config, Cell(Arm(8, 0), 0), number, reports, rejected={}, wall=1.0)
        done.append(replace(one, round=10 * number + 9, accuracy=tuple(by_node), held_out={"pass_at_k": 0.2 * number}))
    return done


def test_a_task_is_adopted_when_half_of_the_nodes_know_it(rows):
    # of the two nodes that are present in the first round one knows it: that is half
    assert adoption(rows, "gcd/tiny") == 0 and adoption(rows, "lcm/tiny") is None
    away = [replace(rows[0], accuracy=({"gcd/tiny": 0.5}, {"gcd/tiny": 0.1}, {"gcd/tiny": 0.1})), rows[1]]
    assert adoption(away, "gcd/tiny") == 10


def test_accuracy_over_local_and_others_tasks(rows):
    local = [frozenset(["gcd/tiny"]), frozenset(["lcm/tiny"]), frozenset(["gcd/tiny", "lcm/tiny"])]
    record = Record(Cell(Arm(8, 0), 0), (*[replace(rows[0], accuracy=())] * 9, *rows), ())
    found = held_out([replace(record, rounds=tuple(rows))], local)
    assert found is not None and found.rounds == (10, 20)
    assert found.all_tasks[0] == pytest.approx(((0.25 + 0.1) / 2, (0.5 + 0.5 + 0.2) / 3))
    assert found.local_tasks[0] == pytest.approx(((0.5 + 0.1) / 2, (0.9 + 0.3 + 0.2) / 3))
    assert found.other_tasks[0] == pytest.approx(((0.0 + 0.1) / 2, (0.1 + 0.7) / 2))
    assert found.by_node[0][0] == (0.25, pytest.approx(0.1), None)
    assert found.by_task["lcm/tiny"][0] == pytest.approx((0.05, 0.2))
    assert found.final == pytest.approx((0.4,)) and found.figures["pass_at_k"] == ((0.0, 0.2),)


def test_nothing_asked_is_nothing_found(rows):
    assert held_out([Record(Cell(Arm(8, 0), 0), (replace(rows[0], accuracy=()),), ())], [frozenset()] * 3) is None


def play(fakes, config):
    cell = Cell(Arm(4, 4), 0)
    own = cell_config(config, cell)
    return list(run_cell(own, cell, fakes.FakePopulation(own), lambda: 0.0, lambda: 0.0))


def test_learners_are_asked_every_so_many_rounds_and_at_the_end_and_nothing_else_changes(fakes, configure):
    asked = play(fakes, configure(evaluate_every=2))
    assert [done.round for done in asked if done.accuracy] == [1, 3, 4]
    assert [replace(done, accuracy=(), held_out={}) for done in asked] == play(fakes, configure())
    assert all(set(node) == {"chain_sum/tiny", "gcd/tiny"} for node in asked[1].accuracy)


def test_a_round_that_was_asked_comes_back_from_a_worker_as_it_was(fakes, configure):
    done = play(fakes, configure(evaluate_every=5))[-1]
    assert read_round(json.loads(json.dumps(plain(asdict(done))))) == done


@pytest.mark.slow
def test_a_report_with_held_out_accuracy_has_tables_and_a_figure(configure, run):
    path = run(configure(evaluate_every=2, seeds=2))
    arms = json.loads(path.read_text())["arms"]
    assert arms["4/4"]["held_out"]["rounds"] == [2, 4, 5] and len(arms["4/4"]["held_out"]["final"]) == 2
    assert "others' tasks" in run.shown and "pass@k" in run.shown
    assert (path.parent / "accuracy.png").stat().st_size > 10_000
