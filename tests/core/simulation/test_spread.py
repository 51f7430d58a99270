"""The nodes of one cell in several processes: the same report, and no process that outlives it."""

import signal
from contextlib import closing
from dataclasses import fields
from random import Random
from typing import Any

import psutil
import pytest

from protocol.messages import PeerId, Round
from swarm_node.common.errors import UserError
from swarm_node.network.in_memory import MemorySwarm, Outgoing, SwarmInParts
from swarm_node.settings import AsynchronousConfig, GenerationConfig, ModelConfig, RoundConfig
from swarm_node.settings.simulation import AttackConfig, FaultsConfig, SimulationConfig
from swarm_node.settings.training import DefenceConfig
from swarm_node.simulation.arms import Cell, all_cells, cell_config, parse_arm
from swarm_node.simulation.cell import run_cell
from swarm_node.simulation.engines.population import LivePopulation
from swarm_node.simulation.engines.spread import SpreadPopulation, divided
from swarm_node.simulation.estimate import cell_seconds, memory, node_processes, sized
from swarm_node.telemetry.simulated import CellRound
from tests.waiting import PATIENCE

TINY: dict[str, Any] = {
    "nodes": 4,
    "rounds": 4,
    "round": RoundConfig(questions=2),
    "model": ModelConfig(name="dense", device="cpu"),
    "generation": GenerationConfig(num_generations=4, max_completion_length=4),
}
FAULTS = FaultsConfig(loss=0.3, delay=1, die=("1@2",), join=("2@1",), slow=("0@2",))


def learnt(done: CellRound) -> dict[str, Any]:
    """A round without its times."""
    names = {entry.name for entry in fields(done)} - {"seconds"}
    return {name: getattr(done, name) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arm", "changes"),
    [
        ("2/2", {"faults": FAULTS, "evaluate_every": 2, "evaluate_questions": 1}),
        ("2/2", {"attack": AttackConfig(kind="stealth"), "defence": DefenceConfig()}),
        ("2/2", {"node_models": ("dense", "rare"), "node_roles": ("learner", "contributor")}),
        ("2/2", {"asynchronous": AsynchronousConfig(enabled=True, max_staleness=1)}),
        ("2/0:dynamic_sampling", {}),
    ],
)
def test_a_round_is_the_same_in_one_process_and_in_three(arm: str, changes: dict[str, Any]) -> None:
    cell = Cell(parse_arm(arm), 5)
    config = cell_config(SimulationConfig(**{**TINY, "arms": (arm,), **changes}), cell)
    with closing(LivePopulation(config)) as here:
        whole = [learnt(done) for done in run_cell(config, cell, here)]
    with closing(SpreadPopulation(config, 3)) as apart:
        assert [learnt(done) for done in run_cell(config, cell, apart)] == whole


def test_all_parts_of_a_swarm_lose_the_same_messages() -> None:
    sent = [
        Outgoing(f"{sender} says {k}".encode(), PeerId(sender), Round(0))
        for k in range(30)
        for sender in "abc"
    ]
    got: dict[str, list[bytes]] = {}

    class Ear:
        def __init__(self, name: str) -> None:
            self.name = name

        def receive(self, parcel: Any) -> None:
            got.setdefault(self.name, []).append(parcel.data)

    whole = MemorySwarm(Random(3), loss=0.5)
    first, second = (SwarmInParts(Random(3), loss=0.5) for _ in range(2))
    for name in "abc":
        whole._members[PeerId(name)] = Ear(f"whole {name}")
        here, there = (first, second) if name == "b" else (second, first)
        here._members[PeerId(name)] = Ear(f"part {name}")
        there.join_elsewhere(PeerId(name))
    for message in sent:
        whole.transmit(*message)
        (first if message.sender == "b" else second).transmit(*message)
    assert [*first.taken(), *second.taken()] != [] and first.taken() == []
    first.deliver(sent)
    second.deliver(sent)
    assert len(got) == 6
    for name in "abc":
        assert 15 < len(got[f"whole {name}"]) < 45
        assert got[f"part {name}"] == got[f"whole {name}"]


def test_nodes_are_divided_into_neighbours_and_hostile_ones_are_with_the_first() -> None:
    assert divided(SimulationConfig(nodes=8), 3) == [[0, 1], [2, 3, 4], [5, 6, 7]]
    assert divided(SimulationConfig(nodes=2), 5) == [[0], [1]]
    attacked = SimulationConfig(nodes=8, attack=AttackConfig(kind="lies"))
    assert divided(attacked, 2) == [[0, 1, 2, 6, 7], [3, 4, 5]]


def test_cores_go_to_cells_by_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_node.simulation.estimate.usable_cores", lambda: 8)
    config = SimulationConfig(
        arms=("4/0", "4/4"), lone_nodes=2, rounds=1000, model=ModelConfig(device="cpu")
    )
    lone, swarm = all_cells(config)
    seconds = [cell_seconds(*cell) for cell in sized(config, [lone, swarm])]
    assert 0.1 < seconds[0] / sum(seconds) < 0.25
    assert node_processes(config, [lone, swarm], 2) == {lone: 2, swarm: 7}
    # No more than there are nodes
    assert node_processes(config, [lone], 1) == {lone: 2}
    short = config.model_copy(update={"rounds": 3})
    assert node_processes(short, [lone, swarm], 2) == {lone: 1, swarm: 1}
    # Who says how many processes there are gets no more
    limited = config.model_copy(update={"workers": 2})
    assert node_processes(limited, [lone, swarm], 2) == {lone: 1, swarm: 1}
    given = short.model_copy(update={"node_processes": 3})
    assert node_processes(given, [lone, swarm], 1) == {lone: 2, swarm: 3}


@pytest.mark.parametrize(("device", "spread"), [("cpu", 8), ("mps", 1), ("cuda", 1)])
def test_nodes_that_share_a_card_stay_in_one_process(
    monkeypatch: pytest.MonkeyPatch, device: str, spread: int
) -> None:
    monkeypatch.setattr("swarm_node.simulation.estimate.usable_cores", lambda: 8)
    config = SimulationConfig(arms=("4/4",), rounds=1000, model=ModelConfig(device=device))
    (cell,) = all_cells(config)
    assert node_processes(config, [cell], 1) == {cell: spread}


def test_without_memory_for_more_each_cell_has_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_node.simulation.estimate.usable_cores", lambda: 8)
    config = SimulationConfig(arms=("4/4",), rounds=1000, model=ModelConfig(device="cpu"))
    cells = all_cells(config)
    need = memory(*sized(config, cells)[0], processes=8)
    for free, processes in ((need, 8), (need - 1, 1)):
        monkeypatch.setattr("swarm_node.simulation.estimate.available", lambda free=free: free)
        assert node_processes(config, cells, 1) == {cells[0]: processes}


@pytest.mark.parametrize("engine", ["process", "ray"])
def test_other_engines_refuse_it_in_a_line(engine: str) -> None:
    from swarm_node.simulation.engines.choice import engine_of

    config = SimulationConfig(engine=engine, node_processes=2)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"--node-processes is for --engine memory; .+"):
        engine_of(config).check(config)


@pytest.mark.slow
def test_when_one_of_the_processes_is_killed_the_cell_fails_in_a_line_and_none_is_left() -> None:
    config = SimulationConfig(**TINY)
    with closing(SpreadPopulation(config, 2)) as population:
        population.join([0, 1, 2, 3])
        process = population._remote[0]._process
        process.send_signal(signal.SIGKILL)
        with pytest.raises(RuntimeError, match="the process of nodes 2 to 3 was killed by SIGKILL"):
            population.produce([0, 1, 2, 3], Round(0))
    assert not psutil.pid_exists(process.pid)


@pytest.mark.slow
def test_a_mistake_that_a_further_process_finds_is_told_as_the_users() -> None:
    config = SimulationConfig(**TINY, node_models=("dense", "dense", "dense", "/no/such/model"))
    with (
        closing(SpreadPopulation(config, 2)) as population,
        pytest.raises(UserError, match="/no/such/model"),
    ):
        population.join([0, 1, 2, 3])


@pytest.mark.slow
def test_a_further_process_ends_as_soon_as_the_worker_is_gone() -> None:
    config = SimulationConfig(**TINY)
    with closing(SpreadPopulation(config, 2)) as population:
        population.join([0, 1, 2, 3])
        share = population._remote[0]
        share._connection.close()  # as every end of the worker does
        assert share._process.wait(timeout=PATIENCE) != 0
