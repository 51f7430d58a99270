"""Options of `simulate`: lists, short names, and an explanation for each."""

from swarm_node.extensions.simulation.settings import SimulationConfig
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.options import describe
from tests.commands import resolve


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
