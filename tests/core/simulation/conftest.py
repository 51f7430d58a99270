import importlib.util
import io
import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console

from swarm_node.common.errors import UserError
from swarm_node.settings import RoundConfig
from swarm_node.settings.simulation import SimulationConfig
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


def make_config(out, **changes):
    fields = {"nodes": 3, "rounds": 5, "arms": ("8/0", "4/4"), "seeds": 2, "workers": 2}
    return SimulationConfig(**{**fields, "round": RoundConfig(questions=9), "out": out, **changes})


def run_fakes(config):
    """Simulates with fake nodes; returns the report's path, or what was raised, and what the
    terminal showed.
    """
    console = Console(file=io.StringIO(), width=120)
    try:
        outcome = simulate(config, console, worker=(sys.executable, str(SCRIPT)), clock=lambda: 0.0)
    except (UserError, KeyboardInterrupt) as error:
        outcome = error
    return outcome, console.file.getvalue()


@pytest.fixture
def configure(tmp_path):
    return lambda **changes: make_config(**{"out": tmp_path / "out", **changes})


@pytest.fixture
def run():
    """As `run_fakes`, but raises; what was shown is in `run.shown`."""

    def go(config):
        outcome, go.shown = run_fakes(config)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return go


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory):
    config = make_config(tmp_path_factory.mktemp("finished") / "out")
    path, shown = run_fakes(config)
    return path.parent, shown


@pytest.fixture
def finished(finished_once, tmp_path):
    """The report folder of a finished run of the plain configuration, at the place `configure`
    names.
    """
    shutil.copytree(finished_once[0], tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def render():
    def text(*renderables):
        console = Console(file=io.StringIO(), width=140)
        console.print(*renderables)
        return console.file.getvalue()

    return text
