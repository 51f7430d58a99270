"""Where the simulations of a study run: on this machine, on a Ray cluster, or on others that a command prefix reaches.

Rewards are the same everywhere, so a study may be begun in one place and gone on with in another.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count

from swarm_node.common.children import usable_cores
from swarm_node.extensions.ray import engine as ray
from swarm_node.extensions.simulation.engines.engine import engine_of
from swarm_node.extensions.simulation.workers import prefixes_of
from swarm_node.settings import SimulationConfig


@dataclass(frozen=True)
class Place:
    """Of simulations, several of which may run side by side in threads."""

    config: SimulationConfig = field(default_factory=SimulationConfig)  # its options of the place
    room: int = field(default_factory=usable_cores)  # simulations of one cell side by side
    _turn: Iterator[int] = field(default_factory=count)

    @property
    def here(self) -> bool:
        """Whether it is this machine, and nothing beside it."""
        return self.config.engine == "memory" and not self.config.workers_by

    def of(self, config: SimulationConfig) -> SimulationConfig:
        """The same simulation, run there. Command prefixes take turns, from one simulation to the next."""
        if self.here:
            return config
        prefixes = self.config.workers_by.split(";")
        first = next(self._turn) % len(prefixes)
        there = {name: getattr(self.config, name) for name in ("engine", "ray", "workers_python")}
        turned = ";".join(prefixes[first:] + prefixes[:first])
        return config.model_copy(update={**there, "workers_by": turned})


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of `swarm-node simulate`, by the same names."""
    parser.add_argument("--engine", choices=("memory", "ray"), default="memory", help="ray: on a Ray cluster")
    address = "auto, or HOST:PORT; default: a cluster of this machine alone"
    parser.add_argument("--ray.address", dest="ray_address", default="", metavar="ADDRESS", help=address)
    prefix = 'run on other machines, such as "ssh host1; ssh host2"'
    parser.add_argument("--workers-by", default="", metavar="COMMAND", help=prefix)
    parser.add_argument("--workers-python", default="", metavar="PATH", help="the interpreter there (as here)")


@contextmanager
def place_of(options: argparse.Namespace) -> Iterator[Place]:
    """The place of these options, for as long as simulations run there. UserError where it cannot be."""
    given = {"engine": options.engine, "ray": {"address": options.ray_address}}
    by = {"workers_by": options.workers_by, "workers_python": options.workers_python}
    config = SimulationConfig.model_validate({**given, **by})
    prefixes = prefixes_of(config)
    with ray.held(config) if config.engine == "ray" else nullcontext():
        room = engine_of(config).cells_at_once(config) or len(prefixes) or usable_cores()
        yield Place(config, room)
