"""Arms and cells of a comparison, options of `simulate`, and the configuration of each node."""

import pytest

from swarm_node.common.errors import UserError
from swarm_node.environments.registry import tasks_of
from swarm_node.settings import NodeConfig, RoundConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.options import describe
from swarm_node.settings.simulation import AttackConfig, FaultsConfig, SimulationConfig
from swarm_node.simulation.arms import (
    Arm,
    all_cells,
    cell_config,
    check_lone_nodes,
    contributors,
    node_config,
    node_names,
    parse_arm,
    parse_arms,
    words_of,
)
from tests.commands import resolve


def test_an_arm_is_local_slash_external():
    assert parse_arm("6/2") == Arm(6, 2) and str(Arm(6, 2)) == "6/2"
    arm = parse_arm("8/0:dynamic_sampling:all")
    assert arm == parse_arm("8/0:all:dynamic_sampling:all")
    assert arm == Arm(8, 0, ("all", "dynamic_sampling"))
    assert str(arm) == "8/0:all:dynamic_sampling"


def test_earlier_names_of_ways_mean_the_same_and_are_shown_by_the_present_ones():
    assert parse_arm("8/0:dapo:all") == parse_arm("8/0:all:dynamic_sampling")
    assert str(parse_arm("4/4:sft")) == str(Arm(4, 4, ("sft",))) == "4/4:imitation"
    assert parse_arms(["4/4:lean:sft"]) == parse_arms(["4/4:imitation:lean"])
    for name in ("8/0:all:dapo", "8/0:all:dynamic_sampling"):  # of a report, old or new
        assert words_of(name) == "8/0, all tasks, dynamic sampling"
    assert (words_of("4/4:sft"), words_of("4/4")) == ("4/4, imitation", "4/4")


def test_an_arm_given_by_both_of_its_names_is_given_twice():
    with pytest.raises(UserError, match="arm 4/4:imitation is given twice"):
        parse_arms(["4/4:sft", "4/4:imitation"])


def test_cells_go_seed_by_seed_so_that_arms_can_be_compared_early(configure):
    cells = ["8/0 seed 7", "4/4 seed 7", "8/0 seed 8", "4/4 seed 8"]
    assert [str(cell) for cell in all_cells(configure(seed=7))] == cells


def test_a_cell_gets_its_arm_its_seed_and_one_thread(configure):
    config = configure(seed=7)
    own = cell_config(config, all_cells(config)[3])
    assert (own.round.local_groups, own.round.external_groups, own.seed, own.threads) == (
        4,
        4,
        8,
        1,
    )
    assert own.round.questions == config.round.questions
    assert cell_config(configure(threads=3), all_cells(config)[0]).threads == 3


def test_a_generalist_asks_the_tasks_of_all_and_alone_there_is_one(configure):
    config = configure(arms=("2/0:all", "1/1:all"), node_tasks=("gcd/tiny", "lcm/tiny"), seeds=1)
    alone, sharing = (cell_config(config, cell) for cell in all_cells(config))
    assert (alone.nodes, sharing.nodes) == (1, 3) and not alone.node_tasks
    assert tasks_of(alone) == tasks_of(sharing) == ("gcd/tiny", "lcm/tiny")
    assert [cell.file_stem for cell in all_cells(config)] == ["2_0_all-0", "1_1_all-0"]


def test_nodes_that_train_alone_may_be_fewer_than_the_swarm(configure):
    config = configure(nodes=8, lone_nodes=3, arms=("4/0", "4/0:all", "4/4"), seeds=1)
    check_lone_nodes(config)
    assert [cell_config(config, cell).nodes for cell in all_cells(config)] == [3, 1, 8]
    for lone in (0, 9):  # none given, and more than there are
        every = configure(nodes=8, lone_nodes=lone, arms=("4/0",))
        check_lone_nodes(every)
        assert cell_config(every, all_cells(config)[0]).nodes == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lone_nodes": 1, "node_tasks": ("gcd/tiny", "lcm/tiny")}, "leaves out some of the 2"),
        ({"lone_nodes": 3, "faults": FaultsConfig(die=("7@1",))}, "without faults and attacks"),
        ({"lone_nodes": 3, "attack": AttackConfig(kind="stealth")}, "without faults and attacks"),
    ],
)
def test_what_lone_nodes_cannot_be_is_said_before_anything_starts(configure, options, message):
    with pytest.raises(UserError, match=message):
        check_lone_nodes(configure(nodes=8, **options))


def test_what_stands_behind_an_arm_changes_its_cell_alone(configure):
    config = configure(arms=("8/0:dynamic_sampling", "2/2:lean", "2/2:imitation", "2/2"), seeds=1)
    dynamic, lean, imitation, plain = (cell_config(config, cell) for cell in all_cells(config))
    assert (dynamic.arms, dynamic.round.sampler, plain.round.sampler) == (
        ("8/0:dynamic_sampling",),
        "informative",
        "uniform",
    )
    assert (lean.round.questions, plain.round.questions) == (2, config.round.questions)
    assert (imitation.training.objective, plain.training) == ("imitating", config.training)


def test_an_arm_that_fills_places_fills_as_many_as_are_local_or_as_the_option_says(configure):
    config = configure(arms=("4/2:fill", "4/2"), seeds=1)
    filling, plain = (cell_config(config, cell) for cell in all_cells(config))
    assert (filling.round.fill, filling.round.most_external) == (4, 6)
    assert (plain.round.fill, plain.round.most_external) == (0, 2)
    given = configure(arms=("4/2:fill", "4/2"), seeds=1, round=RoundConfig(fill=3))
    assert [cell_config(given, cell).round.fill for cell in all_cells(given)] == [3, 3]


@pytest.mark.parametrize("arm", ["8/0:fill", "0/4:fill"])
def test_an_arm_without_groups_of_both_kinds_has_no_places_to_fill(arm):
    with pytest.raises(UserError, match="fill needs local and external groups"):
        parse_arm(arm)


def test_cells_have_different_file_names(configure):
    stems = [
        cell.file_stem for cell in all_cells(configure(arms=("1/11", "11/1", "1/1"), seeds=12))
    ]
    assert len(set(stems)) == len(stems) == 36 and not any("/" in stem for stem in stems)


def test_models_and_tasks_are_dealt_in_turn(configure):
    config = configure(node_models=("dense,rare",), node_tasks=("gcd/easy, lcm/easy", "gcd/hard"))
    nodes = [node_config(config, node) for node in range(3)]
    assert [node.model.name for node in nodes] == ["dense", "rare", "dense"]
    assert [node.environment.tasks for node in nodes[:2]] == [
        ("gcd/easy", "lcm/easy"),
        ("gcd/hard",),
    ]
    assert node_names(config)[1] == "1 rare gcd/hard"


def test_roles_are_dealt_in_turn(configure):
    config = configure(node_roles=("learner", "contributor"))
    assert contributors(config) == {1} and node_names(config) == [
        "0 learner",
        "1 contributor",
        "2 learner",
    ]


def test_every_list_is_by_comma_or_space_alike_but_for_the_tasks_of_nodes():
    flags = "--arms 8/0,4/4 2/6 --faults.die 1@2,2@3 --node-tasks gcd/easy,lcm/easy gcd/hard"
    config = from_command_line(SimulationConfig, flags.split(), "swarm-node simulate")
    assert (config.arms, config.faults.die) == (("8/0", "4/4", "2/6"), ("1@2", "2@3"))
    assert config.node_tasks == ("gcd/easy,lcm/easy", "gcd/hard")


def test_options_have_short_names_and_explanations_and_run_knows_their_variables():
    flags = ["--attack", "lies", "--defence", "rescue", "ngrams"]
    config = from_command_line(SimulationConfig, flags, "swarm-node simulate")
    assert (config.attack.kind, config.defence.layers) == ("lies", ("rescue", "ngrams"))
    assert all(describe(SimulationConfig).values())
    assert resolve(NodeConfig, None, {"SWARM_NODE_ATTACK__KIND": "lies"}).seed == 0
