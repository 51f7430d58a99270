"""What ships stands in tables: the names that options take are those of the code."""

from typing import Annotated, Any, Literal, get_args, get_origin

import pytest

from swarm_node.network.transport.libraries import BACKENDS
from swarm_node.rollouts.defence import LAYERS
from swarm_node.settings import BootstrapConfig, DefenceConfig, NetworkConfig, SimulationConfig
from swarm_node.settings.sections import PlugIn
from swarm_node.simulation.engines.choice import ENGINES


def names(hint: Any) -> set[str]:
    """The names that a type of an option allows besides a file of the user's."""
    if get_origin(hint) is Literal:
        return {*get_args(hint)}
    if get_origin(hint) is Annotated:
        marks = [mark for mark in hint.__metadata__ if isinstance(mark, PlugIn)]
        return {*marks[0].besides} if marks else names(get_args(hint)[0])
    return set().union(*map(names, get_args(hint)))


@pytest.mark.parametrize(
    ("section", "option", "table"),
    [
        (DefenceConfig, "layers", LAYERS),
        (NetworkConfig, "backend", BACKENDS),
        (BootstrapConfig, "backend", BACKENDS),
        (SimulationConfig, "node_backends", BACKENDS),
        (SimulationConfig, "engine", ENGINES),
    ],
)
def test_an_option_takes_the_names_of_its_table(section: Any, option: str, table: Any) -> None:
    field = section.model_fields[option]
    marks = [mark for mark in field.metadata if isinstance(mark, PlugIn)]
    taken = {*marks[0].besides} if marks else names(field.annotation)
    assert taken == {*table}
