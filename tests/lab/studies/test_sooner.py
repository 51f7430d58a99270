"""How much sooner a level is reached: the measure by hand, and the runs of the study."""

import argparse

import pytest

pytest.importorskip("scipy", reason="extra studies")

from lab.studies import sooner
from swarm_node.simulation.main import check

OPTIONS = argparse.Namespace(quick=False, model=None)


def report(accuracies, per_round=10.0, nodes=2):
    """Evaluations after 2, 4, ... rounds; a round costs each node so many tokens and seconds."""
    rounds = [2 * (index + 1) for index in range(len(accuracies))]
    tokens = [[nodes * per_round * done for done in rounds]]
    held_out = {"rounds": rounds, "all_tasks": [list(accuracies)]}
    held_out |= {"generated_tokens": tokens, "trained_tokens": tokens}
    seconds = [[nodes * per_round * (number + 1) for number in range(rounds[-1])]]
    arm = {"held_out": held_out, "node_rewards": [[0.0] * nodes]}
    return {"arms": {"a": arm}, "cost": {"a": {"cpu_seconds": seconds}}}


def test_a_level_is_reached_between_two_evaluations_at_the_first_or_never():
    rounds, accuracies = [2.0, 4.0, 6.0, 8.0], [0.1, 0.3, 0.2, 0.5]
    assert sooner.time_to(0.2, rounds, accuracies) == pytest.approx(3.0)
    assert sooner.time_to(0.1, rounds, accuracies) == sooner.time_to(0.05, rounds, accuracies) == 2
    # What was reached and lost again counts as reached
    assert sooner.time_to(0.3, rounds, accuracies) == 4.0
    assert sooner.time_to(0.4, rounds, accuracies) == pytest.approx(6 + 2 * 2 / 3)
    assert sooner.time_to(0.6, rounds, accuracies) is None


def test_times_are_compared_up_to_the_price_at_which_all_are_known():
    lone = [report([0.0, 0.1, 0.2, 0.3]), report([0.0, 0.0, 0.0, 0.0])]
    sharing = [report([0.2, 0.4]), report([0.1, 0.3])]
    compared, of_lone, of_sharing = sooner.sooner("x", lone, sharing, "rounds", 0.2)
    # The second lone run never reached it, and was followed for eight rounds. The others are known
    # for ever, though those that share ended after four.
    assert (compared.mean, of_lone) == (pytest.approx((6.0 + 8.0) / 2), 1)
    assert (compared.base, of_sharing) == (pytest.approx((2.0 + 3.0) / 2), 2)
    assert compared.ratio == pytest.approx(2.8)


def test_a_dearer_round_makes_the_same_rounds_a_longer_time():
    lone, sharing = [report([0.1, 0.2])] * 3, [report([0.2, 0.3], per_round=20.0)] * 3
    by_axis = {
        axis: sooner.sooner("x", lone, sharing, axis, 0.2)[0].ratio
        for axis in ("rounds", "generated_tokens", "cpu_seconds", "GPU, G 1")
    }
    assert by_axis == {
        "rounds": 2.0,
        "generated_tokens": 1.0,
        "cpu_seconds": 1.0,
        "GPU, G 1": 1.0,
    }


def test_a_run_that_is_censored_can_only_make_the_ratio_smaller():
    sharing = [report([0.2, 0.3])] * 2
    short, long = ([report([0.0, 0.1, 0.2][:number])] * 2 for number in (2, 3))
    ratios = [
        sooner.sooner("x", lone, sharing, "rounds", 0.2)[0].ratio or 0.0 for lone in (short, long)
    ]
    assert ratios == [2.0, 3.0]
    never = [report([0.0, 0.0])] * 2
    assert sooner.sooner("x", short, never, "rounds", 0.2)[0].ratio == 1.0


def test_levels_are_shares_of_what_the_lone_learners_reach_at_the_end():
    reports = [report([0.1, 0.2, 0.3, 0.4]), report([0.1, 0.4, 0.5, 0.6])]
    assert sooner.levels(reports) == pytest.approx([0.25, 0.375, 0.5])


def test_every_run_is_one_that_simulate_takes_and_has_a_folder_of_its_own(tmp_path):
    names = [*sooner.ARMS, *(f"dealt {name}" for name in sooner.SHARING)]
    runs = [sooner.run(OPTIONS, name, 0, 5e-4) for name in names]
    assert len({run.folder(tmp_path) for run in runs}) == len(names)
    assert all(len(check(run.config)) == 1 for run in runs)
    nodes = {name: sooner.run(OPTIONS, name, 0, 5e-4).config.rounds for name in sooner.ARMS}
    assert nodes["alone"] == 2 * nodes["4/8"]


def test_no_seed_is_used_both_to_choose_and_to_compare():
    assert not set(sooner.BRACKET) & set(sooner.SEEDS) and len(sooner.SEEDS) == 8


def test_only_seeds_on_which_all_arms_are_done_are_compared(tmp_path):
    options = argparse.Namespace(quick=False, model=None, runs=tmp_path)
    runs = {
        name: [sooner.run(options, name, seed, 5e-4) for seed in (1, 2)]
        for name in ("alone", "4/4")
    }
    for run in (*runs["alone"], runs["4/4"][1]):
        run.folder(tmp_path).mkdir(parents=True)
        (run.folder(tmp_path) / "report.json").write_text(f'{{"seed": {run.seed}}}')
    found = sooner.done_on_all(options, runs)
    assert found == {"alone": [{"seed": 2}], "4/4": [{"seed": 2}]}
