"""The configuration files of the repository, with the sections of all extensions."""

import tomllib
from pathlib import Path

import pytest

from swarm_node.extensions.simulation.settings import SimulationConfig
from swarm_node.settings import NodeConfig
from swarm_node.settings.options import flatten
from tests.commands import resolve

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "file", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.name
)
def test_every_config_file_in_the_repository_is_valid(file):
    kind = SimulationConfig if file.stem in ("simulate", "starters") else NodeConfig
    config = resolve(kind, file, {})
    assert flatten(tomllib.loads(file.read_text())).keys() <= flatten(config.model_dump()).keys()
