"""Every node is a container of one image. `clean_up` removes containers that a killed simulation left behind."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from swarm_node.common.errors import UserError
from swarm_node.extensions.simulation.arms import Cell
from swarm_node.extensions.simulation.engines.engine import Run
from swarm_node.extensions.simulation.engines.real_nodes import LINES, RealEngine, RealRun, one_line
from swarm_node.extensions.simulation.settings import SimulationConfig
from swarm_node.extensions.simulation.worker_messages import node_environment
from swarm_node.settings.options import plug_in_files

LABEL = "swarm-node.simulation"  # of every container and network of ours; its value names the report folder


class DockerEngine(RealEngine):
    """Implements engine.Engine."""

    def check(self, config: SimulationConfig) -> None:
        """Containers do not see files of this machine."""
        super().check(config)
        if files := plug_in_files(config):
            raise UserError(f"{files[0]} is a file of this machine: with --engine docker install plug-ins in the image")

    def begin(self, config: SimulationConfig, cell: Cell) -> Run:
        """Its nodes are containers."""
        return RealRun(config, cell, DockerLauncher(config.image, run_name(config), node_environment(config)))

    def clean_up(self, config: SimulationConfig) -> None:
        """Containers do not end with the worker that started them."""
        _remove(connect(), {LABEL: run_name(config)})


class Container:
    """Implements real_nodes.RunningNode: a node in a container."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def alive(self) -> bool:
        self._container.reload()
        return str(self._container.status) in ("created", "running", "paused")

    def freeze(self) -> None:
        self._container.pause()

    def thaw(self) -> None:
        self._container.unpause()

    def kill(self) -> None:
        """Kills it in any state. Its files stay in its home."""
        self._container.remove(force=True, v=True)

    def last_words(self) -> str:
        return one_line(self._container.logs(tail=LINES).decode(errors="replace"))

    def memory_mb(self) -> float:
        """As the engine counts it."""
        usage = self._container.stats(stream=False).get("memory_stats", {}).get("usage", 0)
        return float(usage) / 1e6


class DockerLauncher:
    """Implements real_nodes.Launcher: nodes are containers of one image on a private network without a way out."""

    host = "0.0.0.0"  # noqa: S104 - of a container in that network

    def __init__(self, image: str, run: str, environment: Mapping[str, str]) -> None:
        """`run` names the simulation; `environment`: variables of every container."""
        self._client = connect()
        self._image, self._label, self._environment = image, {LABEL: run}, environment
        try:
            self._client.images.get(image)
        except Exception as error:
            raise UserError(f"no image {image!r}: build it with `docker build -t {image} .`") from error
        self._network = self._client.networks.create(f"swarm-node-{os.getpid()}", internal=True, labels=self._label)

    def start(self, name: str, home: Path, arguments: Sequence[str]) -> Container:
        words = [word.replace("{home}", "/data") for word in arguments]
        container = self._client.containers.create(
            self._image,
            words,
            name=f"{self._network.name}-{name}",
            network=self._network.name,
            volumes={str(home.resolve()): {"bind": "/data", "mode": "rw"}},
            environment=dict(self._environment),
            user=f"{os.getuid()}:{os.getgid()}",  # so that its files belong to the user who started the simulation
            labels=self._label,
        )
        container.start()
        return Container(container)

    def close(self) -> None:
        _remove(self._client, self._label)


def run_name(config: SimulationConfig) -> str:
    """The label value of this simulation's containers."""
    return str(config.out.expanduser().resolve())


def connect() -> Any:
    """A client of the local engine. UserError if there is none."""
    try:
        import docker
    except ImportError as error:
        raise UserError("--engine docker needs the Docker SDK: pip install 'textswarm[docker]'") from error
    try:
        client = docker.from_env()
        client.ping()
    except Exception as error:
        raise UserError(f"no Docker engine answers ({error}); start one, or use --engine process") from error
    return client


def _remove(client: Any, label: Mapping[str, str]) -> None:
    chosen = {"label": [f"{key}={value}" for key, value in label.items()]}
    for container in client.containers.list(all=True, filters=chosen):
        with contextlib.suppress(Exception):  # it may be gone already
            container.remove(force=True, v=True)
    for network in client.networks.list(filters=chosen):
        with contextlib.suppress(Exception):
            network.remove()
