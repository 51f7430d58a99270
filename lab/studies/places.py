"""Where the simulations of a study run: on this machine, or on a Ray cluster.

Rewards are the same everywhere, so a study may be begun in one place and gone on with in another.
"""

import argparse
from dataclasses import dataclass, field

from swarm_node.common.children import usable_cores
from swarm_node.extensions.simulation.engines.engine import engine_of
from swarm_node.extensions.simulation.settings import SimulationConfig


@dataclass(frozen=True)
class Place:
    """Of simulations, several of which may run side by side in threads."""

    config: SimulationConfig = field(default_factory=SimulationConfig)  # its options of the place
    room: int = field(default_factory=usable_cores)  # simulations of one cell side by side

    def of(self, config: SimulationConfig) -> SimulationConfig:
        """The same simulation, run there."""
        if self.config.engine == "memory":
            return config
        return config.model_copy(update={"engine": self.config.engine, "ray": self.config.ray})


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of `swarm-node simulate`, by the same names."""
    parser.add_argument("--engine", choices=("memory", "ray"), default="memory", help="ray: on a Ray cluster")
    address = "auto, or HOST:PORT; default: a cluster of this machine alone"
    parser.add_argument("--ray.address", dest="ray_address", default="", metavar="ADDRESS", help=address)


def place_of(options: argparse.Namespace) -> Place:
    """The place of these options. UserError where it cannot be."""
    given = {"engine": options.engine, "ray": {"address": options.ray_address}}
    config = SimulationConfig.model_validate(given)
    return Place(config, engine_of(config).cells_at_once(config))
