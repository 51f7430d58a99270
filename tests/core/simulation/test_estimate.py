"""The estimate of a simulation's memory and time, before it starts."""

import json
from pathlib import Path

import pytest

from swarm_node.common.errors import UserError
from swarm_node.settings import GenerationConfig, ModelConfig, RoundConfig
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import all_cells
from swarm_node.simulation.estimate import (
    estimated,
    memory,
    parameters,
    processor_seconds,
)


def pretended(folder: Path, *shapes: list[int]) -> str:
    """A model folder whose file has a header and no tensors."""
    tensors = {str(k): {"dtype": "F32", "shape": shape} for k, shape in enumerate(shapes)}
    head = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head)
    return str(folder)


def simulation(name: str, **changes: object) -> SimulationConfig:
    return SimulationConfig(arms=("8/0",), model=ModelConfig(name=name, device="cpu"), **changes)


def test_parameters_are_counted_in_the_head_of_a_file(tmp_path: Path) -> None:
    assert parameters(pretended(tmp_path, [1000, 20], [7])) == 20_007
    assert parameters("rare") == 704_000 and parameters("no/model") == 0


def test_memory_and_time_by_hand() -> None:
    plain, adapters = (SimulationConfig(model=ModelConfig(lora_rank=rank)) for rank in (0, 16))
    sizes = [100_000_000] * 2
    assert (memory(plain, sizes), memory(adapters, sizes)) == pytest.approx((3.7e9, 1.54e9))
    mix = RoundConfig(questions=2, local_groups=1, external_groups=1)
    generation = GenerationConfig(num_generations=4, max_completion_length=9)
    config = SimulationConfig(rounds=10, round=mix, generation=generation)
    # two groups of 64 + 4 x 9 tokens are generated and trained on: 10 x 2e8 x (2 x 200 + 6 x 200) /
    # 4e10
    assert processor_seconds(config, sizes) == pytest.approx(80.0)


def test_a_large_one_is_told_and_what_cannot_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 8e9}))
    small, large = (
        simulation(pretended(tmp_path, [10_000, 6_000]), nodes=nodes) for nodes in (1, 1000)
    )
    (line,) = estimated(small, all_cells(small), 1)
    assert line.startswith("1 cells of 1 nodes, 1 at a time: 1.7 GB of memory and up to ")
    assert not list(estimated(simulation("rare", nodes=8), all_cells(small), 1))
    refusal = r"1000 nodes, 1 at a time: 721.0 GB of .* 8.0 GB are free: give --model.lora-rank"
    with pytest.raises(UserError, match=refusal):
        list(estimated(large, all_cells(large), 1))
