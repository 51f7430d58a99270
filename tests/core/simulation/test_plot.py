"""What the figures of a simulation show, by their panels and the values in them."""

from dataclasses import replace

import pytest

from swarm_node.simulation import plot
from tests.core.simulation.test_conclusion import answered, report_of

TOKENS = ((20, 40, 60, 80),)  # trained by both nodes together
ALL = (0.1, 0.2, 0.3, 0.4)


def lines(axes):
    return [
        (line.get_label(), list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines
    ]


def drawn(**arms):
    """The panels of the figure of accuracy. Each arm has two nodes and one seed."""
    report = report_of(**arms)
    for name, arm in report.arms.items():
        report.arms[name] = replace(arm, node_rewards=((0.0, 0.0),))
    return plot.accuracy(report).axes


def test_nodes_that_practise_the_same_are_drawn_once_by_round_and_by_tokens():
    asked = replace(
        answered(ALL), local_tasks=(ALL,), other_tasks=((None,) * 4,), trained_tokens=TOKENS
    )
    by_round, by_tokens = drawn(_4_0=asked)
    assert lines(by_round) == [("alone: 4 own", [3.0, 6.0, 9.0, 12.0], list(ALL))]
    assert lines(by_tokens) == [("alone: 4 own", [10.0, 20.0, 30.0, 40.0], list(ALL))]
    assert (by_round.get_xlabel(), by_tokens.get_xlabel()) == ("round", "trained tokens of a node")
    assert by_round.get_ylim() == (0.0, pytest.approx(0.5)), "low accuracies fill the figure"


def test_specialists_have_a_column_for_their_own_tasks_and_one_for_others():
    own, others = (0.5, 0.6, 0.7, 0.9), (0.0, 0.1, 0.1, 0.2)
    asked = replace(answered(ALL), local_tasks=(own,), other_tasks=(others,), trained_tokens=TOKENS)
    panels = drawn(_4_4=asked)
    assert [axes.get_title(loc="left") for axes in panels[:3]] == list(plot.KINDS.values())
    assert [lines(axes)[0][2] for axes in panels] == 2 * [list(ALL), list(own), list(others)]
    assert panels[0].get_ylim() == (0.0, 1.0)


def test_an_arm_without_evaluations_is_left_out():
    asked = replace(
        answered(ALL), local_tasks=(ALL,), other_tasks=((None,) * 4,), trained_tokens=TOKENS
    )
    by_round, _ = drawn(_4_0=asked, _4_8=None)
    assert [name for name, *_ in lines(by_round)] == ["alone: 4 own"]
