"""Real nodes for the simulation: how a node is started, frozen and killed, as a process or as a container.

Both run the `swarm-node` that people run. Nothing outlives `close`; what a killed simulation leaves of its containers
is removed by `remove_leftovers`.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil

from swarm_node.errors import UserError
from swarm_node.simulation.memory import family_mb

LABEL = "swarm-node.simulation"  # of every container and network of ours; its value names the report folder
LINES = 5  # of a node's last words


class Member(Protocol):
    """A running node."""

    def alive(self) -> bool: ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def kill(self) -> None: ...

    def last_words(self) -> str:
        """The end of what it printed, on one line."""
        ...


class Launcher(Protocol):
    host: str  # address that nodes listen on

    def start(self, name: str, home: Path, arguments: Sequence[str]) -> Member:
        """`swarm-node ARGUMENTS`, where {home} stands for the node's home as the node itself sees it."""
        ...

    def memory_mb(self) -> float:
        """Of all nodes together."""
        ...

    def close(self) -> None: ...


class Process:
    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process, self._output = process, output

    def alive(self) -> bool:
        return self._process.poll() is None

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """As a power cut would: the node and what it started."""
        family = [self._process.pid]
        with contextlib.suppress(psutil.Error):
            family += [child.pid for child in psutil.Process(self._process.pid).children(recursive=True)]
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def last_words(self) -> str:
        return _one_line(self._output.read_text(errors="replace"))


class ProcessLauncher:
    """Nodes are processes of this machine and meet on its loopback interface."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self._members: list[Process] = []

    def start(self, name: str, home: Path, arguments: Sequence[str]) -> Process:
        words = [word.replace("{home}", str(home)) for word in arguments]
        with (home / "output.log").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "swarm_node.cli", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._members.append(Process(process, home / "output.log"))
        return self._members[-1]

    def memory_mb(self) -> float:
        return family_mb()

    def close(self) -> None:
        for member in self._members:
            member.kill()


class Container:
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
        """Whatever state it is in; its files stay in its home."""
        self._container.remove(force=True, v=True)

    def last_words(self) -> str:
        return _one_line(self._container.logs(tail=LINES).decode(errors="replace"))

    def memory_mb(self) -> float:
        usage = self._container.stats(stream=False).get("memory_stats", {}).get("usage", 0)
        return float(usage) / 1e6


class DockerLauncher:
    """Nodes are containers of one image on a private network of their own, which leads nowhere else."""

    host = "0.0.0.0"  # noqa: S104 - of a container in that network

    def __init__(self, image: str, run: str, environment: Mapping[str, str]) -> None:
        """`run` names the simulation; `environment` is that of every container."""
        self._client = connect()
        self._image, self._label, self._environment = image, {LABEL: run}, environment
        try:
            self._client.images.get(image)
        except Exception as error:
            raise UserError(f"no image {image!r}: build it with `docker build -t {image} .`") from error
        self._network = self._client.networks.create(f"swarm-node-{os.getpid()}", internal=True, labels=self._label)
        self._members: list[Container] = []

    def start(self, name: str, home: Path, arguments: Sequence[str]) -> Container:
        words = [word.replace("{home}", "/data") for word in arguments]
        container = self._client.containers.create(
            self._image,
            words,
            name=f"{self._network.name}-{name}",
            network=self._network.name,
            volumes={str(home.resolve()): {"bind": "/data", "mode": "rw"}},
            environment=dict(self._environment),
            user=f"{os.getuid()}:{os.getgid()}",  # so that what it writes belongs to whoever started the simulation
            labels=self._label,
        )
        container.start()
        self._members.append(Container(container))
        return self._members[-1]

    def memory_mb(self) -> float:
        return round(sum(member.memory_mb() for member in self._members if member.alive()), 1)

    def close(self) -> None:
        _remove(self._client, self._label)


def connect() -> Any:
    """A client of the local engine; UserError with what to do where there is none."""
    try:
        import docker
    except ImportError as error:
        raise UserError("--engine docker needs the Docker SDK: pip install 'swarm-node[docker]'") from error
    try:
        client = docker.from_env()
        client.ping()
    except Exception as error:
        raise UserError(f"no Docker engine answers ({error}); start one, or use --engine process") from error
    return client


def remove_leftovers(run: str) -> None:
    """Containers and networks of a simulation that ended by force. `run` names its report folder."""
    _remove(connect(), {LABEL: run})


def _one_line(text: str) -> str:
    return " / ".join(line.strip() for line in text.splitlines()[-LINES:]) or "it said nothing"


def _remove(client: Any, label: Mapping[str, str]) -> None:
    chosen = {"label": [f"{key}={value}" for key, value in label.items()]}
    for container in client.containers.list(all=True, filters=chosen):
        with contextlib.suppress(Exception):  # gone meanwhile
            container.remove(force=True, v=True)
    for network in client.networks.list(filters=chosen):
        with contextlib.suppress(Exception):
            network.remove()
