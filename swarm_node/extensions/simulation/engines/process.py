"""Every node is a process on this machine with a real network, at its own pace: the `swarm-node` that people run."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from swarm_node.common.children import without_secrets
from swarm_node.extensions.simulation.arms import Cell
from swarm_node.extensions.simulation.engines.engine import Run
from swarm_node.extensions.simulation.engines.real_nodes import RealEngine, RealRun, one_line
from swarm_node.extensions.simulation.memory_use import family, family_mb
from swarm_node.extensions.simulation.settings import SimulationConfig


class ProcessEngine(RealEngine):
    """Implements engine.Engine. Processes end with the worker that started them."""

    def begin(self, config: SimulationConfig, cell: Cell) -> Run:
        """Its nodes are processes."""
        return RealRun(config, cell, ProcessLauncher())


class Process:
    """Implements real_nodes.RunningNode: a node as a process of this machine."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: Path) -> None:
        self._process, self._output = process, output

    def alive(self) -> bool:
        return self._process.poll() is None

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kills the node and what it started, as a power cut would."""
        for process in family(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._process.wait()

    def last_words(self) -> str:
        return one_line(self._output.read_text(errors="replace"))

    def memory_mb(self) -> float:
        return family_mb(self._process.pid)


class ProcessLauncher:
    """Implements real_nodes.Launcher: nodes are processes of this machine and connect over its loopback interface."""

    host = "127.0.0.1"

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
        return Process(process, home / "output.log")

    def close(self) -> None:
        pass
