import re
from dataclasses import replace

import pytest

from swarm_node.rollouts.groups import combined
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import Arm, Cell, FinishedCell
from swarm_node.simulation.cell import summary
from swarm_node.simulation.plot import subline
from swarm_node.simulation.report import build_report, ci95, t_975
from swarm_node.simulation.tables import per_seed, result
from tests.core.telemetry.test_metrics import report as different


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [
        (1, 12.7062),
        (2, 4.3027),
        (4, 2.7764),
        (9, 2.2622),
        (30, 2.0423),
        (31, 2.0395),
        (40, 2.0211),
        (120, 1.9799),
    ],
)
def test_t_quantiles_are_those_of_a_printed_table(degrees, quantile):
    assert t_975(degrees) == pytest.approx(quantile, abs=6e-5)


def test_the_interval_of_three_seeds_by_hand_and_one_seed_has_none():
    # mean 10, deviations -2, 0, 2: standard deviation 2, over the root of 3, times 4.3027
    assert ci95([8.0, 10.0, 12.0]) == pytest.approx(4.968, abs=1e-3) and ci95([5.0]) is None


def record(fakes, config, arm, seed, rewards, **changes):
    """`rewards`: per round, per node; None for a node that did not take part."""
    cell = Cell(arm, seed)
    rounds = []
    for number, row in enumerate(rewards):
        reports = {
            node: fakes.report(node, number, reward, arm.external, **changes)
            for node, reward in enumerate(row)
            if reward is not None
        }
        rejected = {node: report.rejected for node, report in reports.items()}
        rounds.append(summary(config, cell, number, reports, rejected=rejected, wall=2.0))
    return FinishedCell(cell, tuple(rounds), 500.0 + seed)


@pytest.fixture
def small(fakes, configure):
    config = configure(nodes=2, rounds=2)
    records = [
        record(fakes, config, Arm(4, 4), 1, [[0.4, 0.4], [0.6, 0.6]]),
        record(fakes, config, Arm(8, 0), 0, [[0.0, 0.2], [0.2, 0.4]]),
        record(fakes, config, Arm(8, 0), 1, [[0.1, 0.1], [0.1, 0.1]]),
        record(fakes, config, Arm(4, 4), 0, [[0.5, 0.1], [1.0, 0.4]]),
    ]
    return config, records


def test_cumulative_reward_is_the_sum_over_rounds_of_the_mean_over_nodes_of_the_sum_over_questions(
    small,
):
    report = build_report(*small)
    alone, sharing = report.arms["8/0"], report.arms["4/4"]
    # nine questions; seed 0: (0.1 + 0.3) * 9 = 3.6, seed 1: (0.1 + 0.1) * 9 = 1.8
    assert alone.cumulative_reward == pytest.approx((3.6, 1.8))
    assert sharing.cumulative_reward == pytest.approx((9.0, 9.0)) and alone.rewards[
        0
    ] == pytest.approx((0.9, 2.7))
    assert (alone.mean, sharing.mean) == pytest.approx((2.7, 9.0))
    # Half the distance of two seeds, times t for one degree
    assert alone.ci95 == pytest.approx(12.7062 * 0.9)


def test_sums_count_all_nodes_rounds_and_seeds_in_the_order_of_the_configuration(small):
    report = build_report(*small)
    arm = report.arms["4/4"]
    assert list(report.arms) == ["8/0", "4/4"] and report.seeds == (0, 1)
    assert (arm.rollouts, arm.generated_tokens, arm.trained_tokens) == (8 * 72, 8 * 500, 8 * 140)
    assert arm.node_rewards[0] == pytest.approx((13.5, 4.5))


def test_the_end_is_the_mean_reward_of_a_completion_in_the_last_ten_rounds(fakes, configure):
    config = configure(nodes=1, rounds=12, arms=("8/0",), seeds=1)
    report = build_report(
        config, [record(fakes, config, Arm(8, 0), 0, [[0.0]] * 2 + [[0.2]] * 5 + [[0.4]] * 5)]
    )
    assert report.arms["8/0"].final_reward == pytest.approx((0.3,))


def test_a_node_that_is_away_does_not_lower_the_mean(fakes, configure):
    config = configure(nodes=2, rounds=1, arms=("8/0",), seeds=1)
    arm = build_report(config, [record(fakes, config, Arm(8, 0), 0, [[0.5, None]])]).arms["8/0"]
    assert arm.cumulative_reward == pytest.approx((4.5,)) and arm.node_rewards == ((4.5, 0.0),)


def test_skips_are_summed_and_rejections_taken_from_the_last_round(fakes, configure):
    config = configure(nodes=2, rounds=3, arms=("8/0",), seeds=1)
    changes = {"skipped": {"prompt too long": 1}, "rejected": {"bad signature": 5}}
    arm = build_report(
        config, [record(fakes, config, Arm(8, 0), 0, [[0.1, 0.1]] * 3, **changes)]
    ).arms["8/0"]
    assert arm.skipped == {"prompt too long": 6} and arm.rejected == {"bad signature": 10}


def test_every_metric_of_a_simulation_is_in_its_rounds_and_its_report() -> None:
    config = SimulationConfig(nodes=2, rounds=1, arms=("4/4",))
    reports = {0: different(), 1: different(2, steps=0)}
    done = summary(config, Cell(Arm(4, 4), 0), 0, reports, rejected={}, wall=1.0)
    assert done.metrics == combined(list(reports.values()))
    arm = build_report(config, [FinishedCell(Cell(Arm(4, 4), 0), (done,), 1.0)]).arms["4/4"]
    assert {name: curves[0][0] for name, curves in arm.metrics.items()} == {
        name: float(f"{value:.6g}") for name, value in done.metrics.items()
    }


def test_the_table_and_the_file_have_tokens_time_and_intervals_of_every_arm(small, render):
    report = build_report(*small)
    header, first, *rest = per_seed(report).splitlines()
    assert header.startswith(
        "arm,seed,cumulative_reward,final_reward,generated_tokens,trained_tokens,cpu_seconds,wall"
    )
    # seed 0 of 8/0: two nodes, two rounds, each of 500 and 100 tokens; (0 + 0.2 + 0.2 + 0.4) / 4 is
    # its reward
    assert first.split(",")[:2] + first.split(",")[4:] == [
        "8/0",
        "0",
        "2000",
        "400",
        "0.0",
        "4.0",
        "",
        "",
        "",
        "",
    ]
    assert [float(value) for value in first.split(",")[2:4]] == pytest.approx([3.6, 0.2]) and len(
        rest
    ) == 3
    shown = render(result(report))
    assert (
        "generated tokens" in shown
        and "2,000 ± 0" in shown
        and "560 ± 0" in shown
        and "4 ± 0" in shown
    )
    one = build_report(small[0].model_copy(update={"seeds": 1}), [small[1][1]])
    # nodes of 1.8 and 5.4: a half-width of 12.7062 x 1.8
    assert "3.6 ± 22.9" in render(result(one)) and "± is over nodes" in render(result(one))


def test_cost_has_the_time_of_a_round_by_phase(small):
    cost = build_report(*small).cost["8/0"]
    assert cost.wall_seconds == ((2.0, 4.0), (2.0, 4.0))
    assert cost.seconds_per_round == pytest.approx({"generate": 0.4, "train": 0.6, "round": 2.0})
    assert cost.peak_memory_mb == 501.0


def test_the_table_shows_means_intervals_and_no_factor(small, render):
    report = build_report(*small)
    shown = render(result(replace(report, nodes=("0 dense", "1 rare"))))
    assert "2.7 ± 11.4" in shown and "9.0 ± 0.0" in shown
    assert (
        "2 nodes, 2 rounds, 2 seeds" in shown
        and "share of correct completions in the last 10 rounds" in shown
    )
    assert (
        not re.search(r"\d(x| times)\b", shown + subline(report))
        and "Cumulative reward of each node" in shown
    )
