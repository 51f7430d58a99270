"""The sentences that a simulation ends with, by numbers that can be checked by hand."""

import pytest

from swarm_node.simulation.arms import parse_arm
from swarm_node.simulation.conclusion import conclusion, of_100
from swarm_node.simulation.plot import label
from swarm_node.simulation.report import ArmSummary, AttackSummary, HeldOut, Report

ROUNDS = (3, 6, 9, 12)
ONE_SEED = " One seed: another seed may come out differently."


def arm_of(name, held_out, attack=None):
    arm = parse_arm(name)
    return ArmSummary(
        local_groups=arm.local,
        external_groups=arm.external,
        cumulative_reward=(),
        mean=0.0,
        ci95=None,
        rewards=(),
        final_reward=(),
        informative_share=(),
        node_rewards=(),
        generated_tokens=0,
        trained_tokens=0,
        rollouts=0,
        skipped={},
        rejected={},
        attack=attack,
        metrics={},
        held_out=held_out,
    )


def answered(*seeds, own=None, others=None):
    """Held-out accuracy of all tasks: for each seed, after each of ROUNDS."""
    return HeldOut(
        rounds=ROUNDS,
        all_tasks=seeds,
        local_tasks=(),
        other_tasks=(),
        final=tuple(seed[-1] for seed in seeds),
        final_local=tuple([own] * len(seeds)),
        final_other=tuple([others] * len(seeds)),
        final_ci95=(),
        area=(),
        by_task={},
        generated_tokens=(),
        trained_tokens=(),
    )


def report_of(seeds=1, attack=None, **arms):
    """A report on arms, whose names are given as local_external, such as `_4_4`."""
    named = {
        name[1:].replace("__", ":").replace("_", "/", 1): held_out
        for name, held_out in arms.items()
    }
    return Report(
        nodes=("0", "1"),
        rounds=12,
        seeds=tuple(range(seeds)),
        questions=4,
        scoring="exact",
        arms={name: arm_of(name, held_out, attack) for name, held_out in named.items()},
        cost={},
    )


def test_a_swarm_that_learns_sooner_and_more_is_told_with_both_levels_and_both_times():
    report = report_of(
        _4_0=answered((0.02, 0.05, 0.07, 0.09)), _4_4=answered((0.09, 0.17, 0.21, 0.25))
    )
    assert conclusion(report) == (
        "After 12 rounds a node that trained alone answers 9 of 100 new questions, a node in the "
        "swarm 25; it had answered 9 after 3 rounds instead of 12." + ONE_SEED
    )


def test_the_same_number_is_no_difference_though_it_may_have_come_sooner():
    alone = answered((0.01, 0.05, 0.07, 0.0949))  # 9.49 of 100 prints as 9
    report = report_of(_4_0=alone, _4_4=answered((0.05, 0.0851, 0.08, 0.0899)))
    assert conclusion(report) == (
        "After 12 rounds a node that trained alone answers 9 of 100 new questions, a node in the "
        "swarm as many, so there is no difference; it had answered 9 after 6 rounds instead of 12."
        + ONE_SEED
    )


def test_a_swarm_that_never_reaches_the_level_is_told_as_that():
    report = report_of(_4_0=answered((0.1, 0.2, 0.3, 0.4)), _4_4=answered((0.1, 0.2, 0.25, 0.31)))
    assert conclusion(report) == (
        "After 12 rounds a node that trained alone answers 40 of 100 new questions, a node in the "
        "swarm only 31; it never answered 40 in these rounds." + ONE_SEED
    )


def test_a_swarm_that_reached_the_level_and_fell_again_is_told_with_both():
    report = report_of(_4_0=answered((0.1, 0.2, 0.3, 0.4)), _4_4=answered((0.1, 0.5, 0.45, 0.3)))
    assert "swarm only 30; it had answered 40 after 6 rounds instead of 12." in conclusion(report)


def test_a_swarm_that_learned_no_sooner_and_one_that_learned_later_are_told():
    alone = answered((0.1, 0.4, 0.3, 0.4))  # it first answers 40 after 6 rounds
    same = conclusion(report_of(_4_0=alone, _4_4=answered((0.1, 0.45, 0.5, 0.5))))
    assert "a node in the swarm 50; both had answered 40 after 6 rounds." in same
    later = conclusion(report_of(_4_0=alone, _4_4=answered((0.1, 0.2, 0.3, 0.5))))
    assert "a node in the swarm 50; it had answered 40 after 12 rounds instead of 6." in later


@pytest.mark.parametrize("alone", [(0.0, 0.0, 0.0, 0.0), (0.9, 0.9, 0.9, 0.9)])
def test_no_time_is_told_for_a_level_that_nobody_had_to_wait_for(alone):
    told = conclusion(report_of(_4_0=answered(alone), _4_4=answered((0.9, 0.9, 0.9, 0.95))))
    assert told.endswith("a node in the swarm 95." + ONE_SEED)


def test_several_seeds_are_told_by_their_mean_their_range_and_how_often_the_swarm_was_ahead():
    # Alone: 8, 10 and 12 of 100 in the end, mean 10. Sharing: 20, 9 and 31, mean 20.
    alone = answered((0.0, 0.0, 0.05, 0.08), (0.0, 0.0, 0.05, 0.1), (0.0, 0.0, 0.05, 0.12))
    swarm = answered((0.0, 0.1, 0.2, 0.2), (0.0, 0.05, 0.08, 0.09), (0.0, 0.16, 0.3, 0.31))
    assert conclusion(report_of(3, _4_0=alone, _4_4=swarm)) == (
        "After 12 rounds a node that trained alone answers 10 (8 to 12) of 100 new questions, a "
        "node in the swarm 20 (9 to 31); it had answered 10 after 6 rounds instead of 12. The node "
        "in the swarm was ahead in 2 of 3 seeds. Three seeds: the numbers are means, with the "
        "lowest and the highest in brackets."
    )


def test_several_arms_that_share_are_named_and_other_lone_nodes_follow():
    told = conclusion(
        report_of(
            _8_0__all=answered((0.1, 0.2, 0.5, 0.8)),
            _8_0__dapo=answered((0.1, 0.2, 0.3, 0.35)),
            _8_0=answered((0.1, 0.2, 0.25, 0.3)),
            _6_2=answered((0.1, 0.2, 0.4, 0.5)),
            _4_4__sft=answered((0.1, 0.4, 0.5, 0.6)),
        )
    )
    assert told == (
        "After 12 rounds a node that trained alone answers 30 of 100 new questions, a node in the "
        "swarm (6/2) 50; it had answered 30 after 9 rounds instead of 12. "
        "After 12 rounds a node that trained alone answers 30 of 100 new questions, a node in the "
        "swarm (4/4, imitation) 60; it had answered 30 after 6 rounds instead of 12. "
        "A node that trained alone on the tasks of all nodes (8/0, all tasks) answers 80 of 100 "
        "new questions after 12 rounds. "
        "A node that trained alone with dynamic sampling (8/0, dynamic sampling) answers 35 of 100 "
        "new questions after 12 rounds." + ONE_SEED
    )


def test_nodes_that_practise_different_tasks_are_told_by_own_tasks_and_those_of_others():
    told = conclusion(
        report_of(
            _2_0=answered((0.2, 0.3, 0.4, 0.5), own=0.944, others=0.348),
            _1_1=answered((0.3, 0.6, 0.7, 0.8), own=0.913, others=0.763),
        )
    )
    assert (
        " On the tasks that a node practises itself, it answers 94 of 100 alone and 91 in the "
        "swarm; on the tasks that only others practise, 35 and 76." in told
    )


def test_a_swarm_under_attack_is_told_by_its_honest_nodes():
    attack = AttackSummary((), (), None, None, None)
    curve = answered((0.1, 0.2, 0.3, 0.4))
    assert "an honest node in the swarm as many" in conclusion(
        report_of(attack=attack, _4_0=curve, _4_4=curve)
    )


def test_without_new_questions_without_a_lone_node_or_without_a_swarm_the_way_to_them_is_told():
    assert conclusion(report_of(_4_0=None, _4_4=None)) == (
        "This run cannot tell whether sharing helps, because nobody was asked new questions: add "
        "--evaluate-every N."
    )
    curve = answered((0.1, 0.2, 0.3, 0.4))
    assert conclusion(report_of(_4_0=curve)) == (
        "A node that trained alone (4/0) answers 40 of 100 new questions after 12 rounds. No node "
        "shared, so there is nothing to compare with: add an arm such as 4/4 to --arms." + ONE_SEED
    )
    assert "No node trained alone, so there is nothing to compare with" in conclusion(
        report_of(_4_4=curve)
    )


def test_halves_of_a_question_go_up_whatever_the_binary_fraction():
    assert [of_100(share) for share in (0.085, 0.125, 0.004, 0.995, 1.0)] == [9, 13, 0, 100, 100]


def test_a_legend_names_arms_for_somebody_who_does_not_know_how_they_are_written():
    named = {name: label(name, arm_of(name, None)) for name in ("4/4", "8/0:all:dynamic_sampling")}
    assert named == {
        "4/4": "sharing: 4 own, 4 of others",
        "8/0:all:dynamic_sampling": "alone: 8 own, all tasks, dynamic sampling",
    }
