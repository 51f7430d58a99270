"""A configuration is an ordinary class: an editor and a type checker know its sections."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from swarm_node.settings import PageConfig
from swarm_node.settings.command_line import KINDS
from swarm_node.settings.options import sections

ROOT = Path(__file__).parents[3]
# What makes a class that stands nowhere in the source
MAKERS = {"create_model", "new_class", "make_dataclass"}


@pytest.mark.parametrize("kind", [*KINDS, PageConfig], ids=lambda kind: kind.__name__)
def test_each_section_of_a_configuration_is_a_field_that_its_source_shows(
    kind: type[BaseModel],
) -> None:
    bases = [base for base in kind.__mro__ if issubclass(base, BaseModel) and base is not BaseModel]
    source = "".join(map(inspect.getsource, bases))
    for name, section in sections(kind).items():
        assert f"    {name}: {section.__name__} = {section.__name__}(" in source, name


def made_classes(source: str) -> list[str]:
    """Calls that make a class, and functions by which a module answers for names it lacks."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            makes = called in MAKERS or (called == "type" and len(node.args) == 3)
            found += [ast.unparse(node.func)] if makes else []
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            found.append(node.name)
    return found


def test_no_class_of_options_is_made_at_run_time() -> None:
    files = sorted((ROOT / "swarm_node" / "settings").rglob("*.py"))
    assert len(files) > 10
    assert {file.name: made for file in files if (made := made_classes(file.read_text()))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "made = create_model('Made', __base__=Section)",
        "made = types.new_class('Made', (Section,))",
        "made = type('Made', (Section,), {})",
        "def __getattr__(name): ...",
    ],
)
def test_a_class_that_is_made_at_run_time_would_be_found(source: str) -> None:
    assert len(made_classes(source)) == 1


TYPED = """
import swarm_node
from swarm_node.settings import BootstrapConfig, NodeConfig

config = swarm_node.NodeConfig(seed=3)
listen: str = config.page.listen
rows: str = NodeConfig().dataset.file
door: str = BootstrapConfig().page.listen
simulated: int = swarm_node.SimulationConfig().nodes
"""
WRONG = {
    "config.pgae": '"NodeConfig" has no attribute "pgae"',
    "config.page.lsten": '"ObservedConfig" has no attribute "lsten"',
    "NodeConfig(modle=1)": 'Unexpected keyword argument "modle" for "NodeConfig"',
    "swarm_node.SimulationConfig().node": '"SimulationConfig" has no attribute "node"',
    "swarm_node.NodeConfg": 'Module has no attribute "NodeConfg"',
}


@pytest.mark.slow
def test_a_type_checker_knows_every_section_and_refuses_what_is_misspelt(tmp_path: Path) -> None:
    file = tmp_path / "typed.py"
    file.write_text(TYPED + "\n".join(WRONG))
    line = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(file)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    told = [line for line in done.stdout.splitlines() if line.startswith(str(file))]
    assert len(told) == len(WRONG), done.stdout
    for said, wanted in zip(told, WRONG.values(), strict=True):
        assert wanted in said
