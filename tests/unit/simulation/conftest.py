import importlib.util
import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from swarm_node.config import RoundConfig, SimulationConfig
from swarm_node.simulation.main import simulate

SCRIPT = Path(__file__).with_name("fake_worker.py")


@pytest.fixture(scope="session")
def fakes():
    """The module of the fake worker, so that its nodes can be used in this process too."""
    spec = importlib.util.spec_from_file_location("fake_worker", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fake_worker"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def configure(tmp_path):
    def make(**changes):
        fields = {
            "nodes": 3,
            "rounds": 5,
            "arms": ("8/0", "4/4"),
            "seeds": 2,
            "out": tmp_path / "out",
            "workers": 2,
            "round": RoundConfig(questions=9),
        }
        return SimulationConfig(**{**fields, **changes})

    return make


@pytest.fixture
def run():
    """Simulates with fake nodes; returns the report's path and what the terminal showed."""

    def go(config):
        console = Console(file=io.StringIO(), width=120)
        try:
            path = simulate(config, console, worker=(sys.executable, str(SCRIPT)), clock=lambda: 0.0)
        finally:
            go.shown = console.file.getvalue()
        return path

    return go


@pytest.fixture
def render():
    def text(*renderables):
        console = Console(file=io.StringIO(), width=140)
        console.print(*renderables)
        return console.file.getvalue()

    return text
