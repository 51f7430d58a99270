"""configs/specialists.toml in small: pre-trained models that share a frozen base, and train
adapters of their own.
"""

import io
import json
from pathlib import Path

import pytest
import torch
from rich.console import Console

from swarm_node.settings import ModelConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.engines.population import LivePopulation
from swarm_node.simulation.main import simulate

CONFIG = Path(__file__).parents[3] / "configs" / "specialists.toml"
SMALL = (
    "--nodes 2 --arms 1/1 --rounds 2 --evaluate-every 2 --evaluate-questions 1 --node-tasks "
    "second/few swap/few"
)


def test_nodes_with_adapters_share_the_frozen_weights_alone() -> None:
    population = LivePopulation(SimulationConfig(model=ModelConfig(name="dense", lora_rank=2)))
    one, other = (population._adapted(population._config) for _ in range(2))
    pairs = list(zip(one.model.parameters(), other.model.parameters(), strict=True))
    assert {mine.requires_grad for mine, _ in pairs} == {True, False}
    assert all(
        (mine is yours) == (not mine.requires_grad) and torch.equal(mine, yours)
        for mine, yours in pairs
    )


# Tests/swarm/test_own_task.py trains a pre-trained model, test_simulate.py simulates with starters
@pytest.mark.long
@pytest.mark.slow
def test_two_pretrained_models_learn_from_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SWARM_NODE_MODEL__NAME")  # the variable would win over the file
    flags = [str(CONFIG), *SMALL.split(), "--out", str(tmp_path / "out")]
    config = from_command_line(SimulationConfig, flags, "swarm-node simulate")
    report = json.loads(simulate(config, Console(file=io.StringIO())).read_text())
    arm = report["arms"]["1/1"]
    assert arm["trained_tokens"] > 0 and sum(arm["metrics"]["external_informative"][0]) > 0
    assert arm["held_out"]["rounds"] == [2] and arm["held_out"]["by_task"].keys() == {
        "second/few",
        "swap/few",
    }
    assert (tmp_path / "out" / "accuracy.png").exists()
