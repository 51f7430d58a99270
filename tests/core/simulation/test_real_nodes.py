"""`simulate --engine process`: real nodes, real daemons, on loopback."""

import io
import json
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from swarm_node.common.errors import UserError
from swarm_node.settings import GenerationConfig, ModelConfig, RoundConfig
from swarm_node.settings.simulation import FaultsConfig, SimulationConfig
from swarm_node.simulation.main import simulate
from tests.waiting import until

SMALL = {
    "model": ModelConfig(name="rare_small"),
    "generation": GenerationConfig(num_generations=4, max_completion_length=8),
    "round": RoundConfig(questions=4),
}


def config(out: Path, **changes: object) -> SimulationConfig:
    fields = {
        "nodes": 3,
        "arms": ("2/2",),
        "rounds": 6,
        "engine": "process",
        "out": out,
        **SMALL,
        **changes,
    }
    return SimulationConfig.model_validate(fields)


@pytest.mark.network
def test_nodes_of_both_libraries_join_die_and_report(tmp_path: Path) -> None:
    faults = FaultsConfig(die=("1@4",), join=("2@2",))
    wanted = config(
        tmp_path / "out", faults=faults, node_backends=("hivemind", "libp2p", "hivemind")
    )

    report = json.loads(simulate(wanted, Console(file=io.StringIO())).read_text())

    arm = report["arms"]["2/2"]
    assert len(arm["rewards"][0]) == 6 and arm["generated_tokens"] > 0
    cells = json.loads((tmp_path / "out" / "cells" / "2_2-0.json").read_text())["rounds"]
    assert [done["nodes"] for done in cells] == [2, 2, 3, 3, 2, 2]
    assert not (tmp_path / "out" / "nodes").exists() or not list(
        (tmp_path / "out" / "nodes").iterdir()
    )
    until(
        lambda: not any(str(tmp_path) in " ".join(_command(each)) for each in psutil.process_iter())
    )


@pytest.mark.parametrize("faults", [{"loss": 0.5}, {"delay": 1}, {"slow": ("1@2",)}])
def test_faults_that_real_nodes_do_not_have(tmp_path: Path, faults: dict[str, object]) -> None:
    with pytest.raises(UserError, match="--engine memory"):
        simulate(
            config(tmp_path / "out", faults=FaultsConfig.model_validate(faults)),
            Console(file=io.StringIO()),
        )


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
