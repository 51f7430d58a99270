from swarm_node.extensions.simulation.node_options import contributors, node_config, node_names


def test_nodes_are_alike_unless_told_otherwise(configure):
    config = configure()
    assert node_config(config, 2) == config and node_names(config) == ["0", "1", "2"]


def test_models_and_tasks_are_dealt_in_turn(configure):
    config = configure(node_models=("dense,rare",), node_tasks=("gcd/easy, lcm/easy", "gcd/hard"))
    nodes = [node_config(config, node) for node in range(3)]
    assert [node.model.name for node in nodes] == ["dense", "rare", "dense"]
    assert [node.environment.tasks for node in nodes[:2]] == [("gcd/easy", "lcm/easy"), ("gcd/hard",)]
    assert node_names(config)[1] == "1 rare gcd/hard"


def test_roles_are_dealt_in_turn(configure):
    config = configure(node_roles=("learner", "contributor"))
    assert contributors(config) == {1} and node_names(config) == ["0 learner", "1 contributor", "2 learner"]
