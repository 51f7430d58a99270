"""A cell of real nodes: each is a process of this machine, the `swarm-node` that users run. They
connect over loopback.

Nodes go at their own pace. Round r of the swarm is round r of every node, whenever each node does
it; a node that joins late counts its rounds from the round in which it joins. Reports come from
each node's events.jsonl. Imports no torch.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from swarm_node.common.awake import AwakeClock
from swarm_node.common.children import ChildKilled, without_secrets
from swarm_node.common.errors import UserError
from swarm_node.common.files import open_to_write
from swarm_node.environments.registry import handed
from swarm_node.network.process.keeper import ADDRESSES_FILE
from swarm_node.rollouts.groups import RoundReport
from swarm_node.settings import LearningConfig, NetworkConfig, NodeConfig, part_of
from swarm_node.settings.options import flatten
from swarm_node.settings.secret import revealed
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import Cell, identity, node_config
from swarm_node.simulation.cell import summary
from swarm_node.simulation.engines.engine import Engine, RunningCell, family, family_mb
from swarm_node.simulation.faults import Schedule
from swarm_node.telemetry.jsonlines import read_jsonlines
from swarm_node.telemetry.simulated import CellRound

POLL_SECONDS = 0.2
START_SECONDS = 180.0  # until every node has begun; eight load torch at the same time
STALL_SECONDS = 300.0  # without a round of any node
# Rounds of simulated nodes take a second, not minutes, so they exchange more often
EXCHANGE_SECONDS = 2.0
LINES = 5  # of a node's last output
HOST = "127.0.0.1"  # that nodes listen on


class ProcessEngine(Engine):
    """`--engine process`. The nodes end with the worker that started them."""

    def check(self, config: SimulationConfig) -> None:
        """UserError for options that only the engine in memory supports."""
        faults, instead = config.faults, "real nodes can die and join late"
        for option, given, words in (
            ("--faults.loss", faults.loss, instead),
            ("--faults.delay", faults.delay, instead),
            ("--faults.slow", faults.slow, instead),
            (
                "--evaluate-every",
                config.evaluate_every,
                "ask real nodes with swarm-node model eval",
            ),
            (
                "--node-roles",
                config.node_roles,
                "start contributors next to real nodes by themselves",
            ),
            ("--attack.kind", config.attack.kind != "none", "real nodes are all honest"),
            ("--node-processes", config.node_processes, "each real node is a process already"),
        ):
            if given:
                raise UserError(f"{option} is for --engine memory; {words}")

    def processes(self, config: SimulationConfig) -> int:
        """One process for each node."""
        return config.nodes

    def node_processes(
        self, config: SimulationConfig, todo: Sequence[Cell], at_once: int
    ) -> Mapping[Cell, int]:
        """None: they are no processes of a cell in memory."""
        return {}

    def begin(self, config: SimulationConfig, cell: Cell) -> RunningCell:
        return RealRun(config, cell)


class Process:
    """A running node, which was started as `swarm-node ARGUMENTS`."""

    def __init__(
        self, home: Path, *arguments: str, handed: Mapping[str, str] | None = None
    ) -> None:
        """`handed`: variables that it gets although they may hold secrets."""
        self._output = home / "output.log"
        command = [
            sys.executable,
            "-P",
            "-m",
            "swarm_node",
            *arguments,
            "--home",
            str(home),
        ]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=without_secrets(handed),
            )

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal. SIGSTOP freezes the node without its noticing, SIGCONT lets it
        continue.
        """
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kills the node and what it started, as a power cut would."""
        for process in family(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._process.wait()

    def killed(self) -> ChildKilled | None:
        """The error that a signal ended the node; None if no signal did."""
        code = self._process.poll()
        return ChildKilled("the node", code) if code is not None and code < 0 else None

    def last_words(self) -> str:
        """The last lines that the node printed, joined into one."""
        lines = self._output.read_text(errors="replace").splitlines()
        return " / ".join(line.strip() for line in lines[-LINES:]) or "it printed nothing"

    def memory_mb(self) -> float:
        """The resident memory of all processes of the node, in MB."""
        return family_mb(self._process.pid)


@dataclass(slots=True)
class RealNode:
    """A node of the swarm, running or not."""

    index: int
    first: int  # round of the swarm in which it joins
    last: int  # first round of the swarm without it
    dies: bool
    home: Path
    member: Process | None = None
    reports: dict[int, RoundReport] = field(default_factory=dict)  # by round of the swarm
    offset: int = 0  # bytes of its events read so far

    @property
    def done(self) -> int:
        """Rounds of the swarm that are behind it: those before it joined, and those that it has
        done.
        """
        return self.first + len(self.reports)


class RealRun(RunningCell):
    """One cell, from starting the nodes to ending them."""

    def __init__(self, config: SimulationConfig, cell: Cell) -> None:
        self._config, self._cell = config, cell
        self._folder = config.out.expanduser() / "nodes" / cell.file_stem
        shutil.rmtree(self._folder, ignore_errors=True)
        schedule = Schedule(config.faults, config.nodes, config.rounds)
        self._nodes = [self._plan(node, schedule) for node in range(config.nodes)]
        self._members: list[Process] = []
        self._peers: list[str] = []

    def rounds(self) -> Iterator[CellRound]:
        """Yields every round as soon as all nodes present in it have done it."""
        self._peers = self._start_bootstrap()
        self._begin_together()
        before = time.monotonic()
        rejected: dict[int, Mapping[str, int]] = {}
        for number in range(self._config.rounds):
            present = [node for node in self._nodes if node.first <= number < node.last]
            self._wait(partial(_have_done, present, number))
            reports = {node.index: node.reports[number] for node in present}
            rejected.update({index: report.rejected for index, report in reports.items()})
            now = time.monotonic()
            yield summary(
                self._config, self._cell, number, reports, rejected=rejected, wall=now - before
            )
            before = now

    def memory_mb(self) -> float:
        """The resident memory of the nodes that run, in MB."""
        return round(sum(member.memory_mb() for member in self._members if member.alive()), 1)

    def close(self) -> None:
        """Ends the nodes and removes their homes. If a node failed, the homes stay to show why."""
        for member in self._members:
            member.kill()
        if all(node.done >= node.last for node in self._nodes):
            shutil.rmtree(self._folder, ignore_errors=True)

    def _plan(self, node: int, schedule: Schedule) -> RealNode:
        present = [
            number for number in range(self._config.rounds) if node in schedule.present(number)
        ]
        first, last = (present[0], present[-1] + 1) if present else (0, 0)
        return RealNode(node, first, last, last < self._config.rounds, self._folder / str(node))

    def _start_bootstrap(self) -> list[str]:
        home = self._folder / "bootstrap"
        home.mkdir(parents=True)
        member = Process(
            home, "bootstrap", "--host", HOST, "--port", "0", "--swarm", self._config.swarm
        )
        self._members.append(member)
        awake = AwakeClock()
        while not (home / ADDRESSES_FILE).exists():
            if not member.alive() or awake() > START_SECONDS:
                words = f"the bootstrap node did not start: {member.last_words()}"
                raise RuntimeError(words) from member.killed()
            time.sleep(POLL_SECONDS)
        return (home / ADDRESSES_FILE).read_text().split()

    def _begin_together(self) -> None:
        """Nodes that are present from the start are frozen until all of them have loaded their
        models.
        """
        founders = [node for node in self._nodes if node.first == 0 < node.last]
        for node in founders:
            self._start(node)
        waiting = list(founders)
        awake = AwakeClock()
        while waiting:
            for node in [node for node in waiting if _started(node)]:
                assert node.member is not None
                node.member.signal(signal.SIGSTOP)
                waiting.remove(node)
            self._check(awake() > START_SECONDS, waiting)
            time.sleep(POLL_SECONDS)
        for node in founders:
            assert node.member is not None
            node.member.signal(signal.SIGCONT)

    def _start(self, node: RealNode) -> None:
        node.home.mkdir(parents=True, exist_ok=True)
        (node.home / "identity.key").write_bytes(
            identity(self._config.seed, node.index).key_bytes()
        )
        (node.home / "identity.key").chmod(0o600)
        with open_to_write(node.home / "node.toml") as file:
            file.write(as_toml(self._node_config(node)).encode())
        node.member = Process(
            node.home, "run", str(node.home / "node.toml"), handed=handed(self._config)
        )
        self._members.append(node.member)

    def _node_config(self, node: RealNode) -> NodeConfig:
        own, backends = node_config(self._config, node.index), self._config.node_backends
        backend = backends[node.index % len(backends)] if backends else NetworkConfig().backend
        peers = tuple(self._peers)
        network = NetworkConfig(
            peers=peers, host=HOST, backend=backend, exchange_seconds=EXCHANGE_SECONDS, mdns=False
        )
        learning = part_of(own, LearningConfig)
        rounds = (self._config.rounds if node.dies else node.last) - node.first
        checkpoints = NodeConfig().checkpoint.model_copy(update={"every": self._config.rounds + 1})
        return NodeConfig(**learning, max_rounds=rounds, network=network, checkpoint=checkpoints)

    def _wait(self, ready: Callable[[], bool]) -> None:
        awake = AwakeClock()
        while True:
            if self._read_all():
                awake = AwakeClock()
            if ready():
                return
            self._check(
                awake() > STALL_SECONDS,
                [node for node in self._nodes if node.member and node.done < node.last],
            )
            time.sleep(POLL_SECONDS)

    def _read_all(self) -> bool:
        """Reads new rounds, and starts or kills nodes that join or die now. Returns whether there
        were new rounds.
        """
        news = False
        for node in self._nodes:
            for report in _new_rounds(node):
                if node.first + report.round < node.last:
                    node.reports[node.first + report.round] = report
                    news = True
            if node.dies and node.done >= node.last and node.member:
                node.member.kill()
                self._members.remove(node.member)
                node.member = None
        through = max(node.done for node in self._nodes if node.reports or node.first == 0)
        for node in self._nodes:
            if 0 < node.first <= through and node.member is None and node.done < node.last:
                self._start(node)
        return news

    def _check(self, late: bool, expected: list[RealNode]) -> None:
        """Raises RuntimeError where one of these nodes has ended, or if it is `late`."""
        for node in expected:
            if node.member and not node.member.alive():
                self._read_all()  # what it wrote since the last read
                if node.done < node.last:
                    words = f"node {node.index} ended early: {node.member.last_words()}"
                    raise RuntimeError(words) from node.member.killed()
        if late:
            raise RuntimeError(
                f"no news from nodes {', '.join(str(node.index) for node in expected)}"
            )


def as_toml(config: NodeConfig) -> str:
    """A configuration file of what differs from the defaults, secrets included. JSON numbers,
    texts, booleans and lists are TOML too.
    """
    flat = flatten(revealed(config, exclude={"home"}, exclude_defaults=True))
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in flat.items())


def _have_done(nodes: Sequence[RealNode], number: int) -> bool:
    """Whether all of these nodes have done the round of this number."""
    return all(number in node.reports for node in nodes)


def _started(node: RealNode) -> bool:
    path = node.home / "events.jsonl"
    return path.exists() and any(event["event"] == "RunStarted" for event in read_jsonlines(path))


def _new_rounds(node: RealNode) -> Iterator[RoundReport]:
    """New rounds in the node's events since the last read. A line that is not complete yet is read
    the next time.
    """
    path = node.home / "events.jsonl"
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(node.offset)
        for line in file:
            if not line.endswith(b"\n"):
                break
            node.offset += len(line)
            event = json.loads(line)
            if event["event"] == "RoundDone":
                yield msgspec.convert(event["report"], RoundReport)
