import pytest

from swarm_node.settings.simulation import FaultsConfig
from swarm_node.simulation.arms import Arm, Cell
from swarm_node.simulation.cell import run_cell
from swarm_node.simulation.faults import Schedule


def schedule(nodes=3, rounds=10, **faults):
    return Schedule(FaultsConfig(**faults), nodes, rounds)


@pytest.mark.parametrize(
    ("faults", "node", "rounds"),
    [
        ({"die": ("1@4",)}, 1, [0, 1, 2, 3]), ({"join": ("2@7",)}, 2, [7, 8, 9]),
        ({"join": ("2@3",), "die": ("2@5",)}, 2, [3, 4]),
        ({"die": ("0@4, 1@5",)}, 1, [0, 1, 2, 3, 4]),
        ({"join": ("2@1",), "slow": ("2@3", "0@2")}, 2, [1, 4, 7]),
        ({"slow": ("2@3", "0@2")}, 0, [0, 2, 4, 6, 8]),
    ],
)  # fmt: skip
def test_a_node_takes_part_from_when_it_joins_until_it_dies_as_often_as_it_manages(
    faults, node, rounds
):
    assert [number for number in range(10) if node in schedule(**faults).active(number)] == rounds


def play(fakes, config):
    population = fakes.FakePopulation(config)
    rounds = list(run_cell(config, Cell(Arm(4, 4), config.seed), population, clock=lambda: 0.0))
    return population, rounds


def test_in_a_round_every_node_produces_before_any_consumes(fakes, configure):
    config = configure(rounds=1)
    population, rounds = play(fakes, config)
    assert [node.log for node in population.nodes.values()] == [["produce 0", "consume 0"]] * 3
    # The groups of the two others, in any order
    assert rounds[0].metrics["external_informative"] == 2


def test_the_dead_leave_and_late_nodes_start_as_everybody_did(fakes, configure):
    population, rounds = play(fakes, configure(faults=FaultsConfig(die=("1@2",), join=("2@3",))))
    assert population.history == ["join 0", "join 1", "leave 1", "join 2"]
    assert population.nodes[1].log[-1] == "consume 1" and population.nodes[2].log[0] == "produce 3"
    assert [done.nodes for done in rounds] == [2, 2, 1, 2, 2]
    assert rounds[2].node_rewards[1] is None and rounds[3].node_rewards[2] == pytest.approx(0.9)
    assert [done.metrics["external_informative"] for done in rounds] == [1, 1, 0, 1, 1]


def test_a_slow_node_stays_a_member_but_skips_rounds_which_earn_nothing(fakes, configure):
    population, rounds = play(fakes, configure(nodes=1, faults=FaultsConfig(slow=("0@2",))))
    assert [entry for entry in population.nodes[0].log if "produce" in entry] == [
        "produce 0",
        "produce 2",
        "produce 4",
    ]
    assert "leave 0" not in population.history
    assert [done.reward > 0 for done in rounds] == [True, False, True, False, True]
