"""Every node is a process on this machine with a real network, at its own pace: the `swarm-node` that people run."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from swarm_node.common.children import without_secrets
from swarm_node.extensions.simulation.arms import Cell
from swarm_node.extensions.simulation.engines.engine import OnThisMachine, Run
from swarm_node.extensions.simulation.engines.real_nodes import RealRun, check_real, one_line
from swarm_node.extensions.simulation.memory_use import family_mb
from swarm_node.settings import SimulationConfig


class ProcessEngine(OnThisMachine):
    """Implements engine.Engine."""

    def check(self, config: SimulationConfig) -> None:
        check_real(config)

    def processes(self, config: SimulationConfig) -> int:
        return config.nodes

    def begin(self, config: SimulationConfig, cell: Cell) -> Run:
        return RealRun(config, cell, ProcessLauncher())

    def clean_up(self, config: SimulationConfig) -> None:
        """Processes end with the worker that started them."""


class Process:
    """A node as a process of this machine."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process, self._output = process, output

    def alive(self) -> bool:
        return self._process.poll() is None

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kills the node and what it started, as a power cut would."""
        family = [self._process.pid]
        with contextlib.suppress(psutil.Error):
            family += [child.pid for child in psutil.Process(self._process.pid).children(recursive=True)]
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def last_words(self) -> str:
        return one_line(self._output.read_text(errors="replace"))


class ProcessLauncher:
    """Nodes are processes on this machine and connect over its loopback interface."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self._members: list[Process] = []

    def start(self, name: str, home: Path, arguments: Sequence[str]) -> Process:
        words = [word.replace("{home}", str(home)) for word in arguments]
        with (home / "output.log").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "swarm_node.commands.cli", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=without_secrets(),
            )
        self._members.append(Process(process, home / "output.log"))
        return self._members[-1]

    def memory_mb(self) -> float:
        return family_mb()

    def close(self) -> None:
        for member in self._members:
            member.kill()
