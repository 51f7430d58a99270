import pytest

from swarm_node.common.errors import UserError
from swarm_node.extensions.simulation.node_options import contributors, is_mixed, node_config, node_names


def test_nodes_are_alike_unless_told_otherwise(configure):
    config = configure()
    assert node_config(config, 2) == config and not is_mixed(config)
    assert node_names(config) == ["0", "1", "2"]


def test_models_are_dealt_in_turn(configure):
    config = configure(node_models=("dense", "rare"))
    assert [node_config(config, node).model.name for node in range(3)] == ["dense", "rare", "dense"]
    assert node_names(config) == ["0 dense", "1 rare", "2 dense"]


def test_models_may_come_as_one_text_with_commas(configure):
    config = configure(node_models=("dense,rare",))
    assert [node_config(config, node).model.name for node in range(2)] == ["dense", "rare"]


def test_tasks_of_a_node_are_a_list_with_commas(configure):
    config = configure(node_tasks=("gcd/easy, lcm/easy", "gcd/hard"))
    assert node_config(config, 0).environment.tasks == ("gcd/easy", "lcm/easy")
    assert node_config(config, 1).environment.tasks == ("gcd/hard",)


def test_devices_are_dealt_in_turn(configure):
    config = configure(node_devices=("cuda:0", "cpu"))
    assert [node_config(config, node).model.device for node in range(3)] == ["cuda:0", "cpu", "cuda:0"]


def test_roles_are_dealt_in_turn_and_somebody_has_to_learn(configure):
    config = configure(node_roles=("learner", "contributor"))
    assert contributors(config) == {1} and is_mixed(config)
    assert node_names(config) == ["0 learner", "1 contributor", "2 learner"]
    with pytest.raises(UserError, match="leaves no learner"):
        contributors(configure(node_roles=("contributor",)))


def test_an_empty_list_of_tasks_is_refused(configure):
    with pytest.raises(UserError, match="names no task"):
        node_config(configure(node_tasks=(",",)), 0)
