"""A simulation on a Ray cluster: its cells are tasks, which Ray spreads over all hosts.

How it works:

    this machine                          a host of the cluster
    RayEngine.launch(cell) ---task------> run_worker
                                            |  checks that code and packages are the same
                                            |  starts the same worker process as on one machine
    RayWorker.messages() <----stream----- passes on its messages and what it prints

So rewards are those of local workers, to the bit, where processors compute alike. What crosses
between the two is bytes and text, in the frames that local workers use; Ray pickles nothing of
ours.

Ray places a task where as many cores are free as the cell has threads, and as much memory as it is
estimated to take (`estimate.py`), and where wanted a share of a GPU. It does not enforce that a
cell takes no more. Ray may not start a task again by itself, since the rounds of a first try have
been passed on: `cell_pool.py` starts a cell anew whose host was lost.

Needs the extra `ray`, which is imported only here.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from swarm_node.common.channel import LENGTH_BYTES, BrokenFrame, Failed
from swarm_node.common.children import usable_cores, without_secrets
from swarm_node.common.errors import UserError, last_line, reason_of
from swarm_node.common.files import open_to_write
from swarm_node.environments.registry import handed
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation import estimate, worker_messages
from swarm_node.simulation.arms import Cell, all_cells
from swarm_node.simulation.engines.elsewhere import check_same, enter_folder_of, origin
from swarm_node.simulation.engines.engine import Engine, Launch, LocalWorker, Worker

STORE_BYTES = 100_000_000  # object store of a cluster of our own: what crosses is text
EXTRA = "--engine ray needs Ray: pip install 'textswarm[ray]'"

# What a task passes on: a frame of a message, what the worker has printed since, and "" or how the
# worker ended and whether a signal ended it
Part = tuple[bytes, bytes, tuple[str, bool] | None]


class RayEngine(Engine):
    """Runs cells as the engine `memory` does, on the hosts of a Ray cluster."""

    def check(self, config: SimulationConfig) -> None:
        """UserError where Ray is not installed, or for options that it does not support."""
        super().check(config)
        if config.node_processes:
            raise UserError(
                "--node-processes is for --engine memory; on Ray a run has one process, so leave "
                "it off"
            )
        _library()

    def node_processes(
        self, config: SimulationConfig, todo: Sequence[Cell], at_once: int
    ) -> Mapping[Cell, int]:
        """None: a task has the cores of one process."""
        return {}

    def cells_at_once(self, config: SimulationConfig) -> int:
        """Cells for which the cluster has room now. UserError where it has none for the largest."""
        need = max((needs(config, cell) for cell in all_cells(config)), key=itemgetter("memory"))
        rooms = [room(host, need) for host in hosts(connect(config))]
        if not any(rooms):
            raise UserError(f"no host of the Ray cluster has room for {in_words(need)}: {ADVICE}")
        return sum(rooms)

    def launch(
        self,
        config: SimulationConfig,
        log: Callable[[Cell], Path],
        command: Sequence[str],
        processes: Mapping[Cell, int],
    ) -> Launch:
        """A function that places the task of a cell on the cluster. UserError where no host has
        room for the largest.
        """
        self.cells_at_once(config)  # also with --workers: a task without room would wait for ever
        ray = connect(config)
        task = ray.remote(run_worker)
        ways = {
            "num_returns": "streaming",
            "scheduling_strategy": "SPREAD",
            "max_retries": 0,
        }
        environment = {**handed(config), **worker_messages.node_environment(config)}
        there = origin()
        words = [word for word in command[1:] if word != "-P"]  # the task gives this flag itself

        def launch(cell: Cell) -> Worker:
            order = worker_messages.WORKER.down.encode(worker_messages.write_order(config, cell))
            need = needs(config, cell)
            placed = task.options(
                num_cpus=need["CPU"],
                num_gpus=need.get("GPU", 0),
                memory=int(need["memory"]),
                **ways,
            )
            stream = placed.remote(order, words, there, environment)
            return RayWorker(ray, stream, log(cell))

        return launch


ADVICE = "give fewer --nodes or --threads, or --ray.memory, or add a larger host"


class RayWorker(Worker):
    """A task on the cluster, whose parts come as a stream."""

    def __init__(self, ray: Any, stream: Any, log: Path) -> None:
        """`log`: the file for what the worker process prints."""
        self._ray, self._stream, self._log = ray, stream, log
        self._error: Exception | None = None
        self._ended: tuple[str, bool] | None = None

    def messages(self) -> Iterator[worker_messages.FromWorker]:
        with open_to_write(self._log) as printed:
            try:
                for reference in self._stream:
                    frame, said, self._ended = self._ray.get(reference)
                    printed.write(said)
                    printed.flush()
                    if frame:
                        yield worker_messages.WORKER.up.decode(frame[LENGTH_BYTES:])
            except self._ray.exceptions.RayError as error:
                self._error = error
            except BrokenFrame as error:
                yield Failed(f"the worker sent nonsense: {error}", by_user=False)

    def last_words(self) -> str:
        if self._error is not None:
            return last_line(str(self._error), 300) or type(self._error).__name__
        return self._ended[0] if self._ended else "the task ended without a message"

    def was_killed(self) -> bool:
        return self._ended is not None and self._ended[1]

    def lost(self) -> bool:
        """Whether Ray ended the task, mostly because its host was lost, and not an error inside of
        it.
        """
        in_the_task = self._ray.exceptions.RayTaskError
        return self._error is not None and not isinstance(self._error, in_the_task)

    def kill(self) -> None:
        """Its worker process ends with the task, as the socket between them closes."""
        with suppress(Exception):  # the cluster may be gone
            self._ray.cancel(self._stream, force=True)


def run_worker(
    order: bytes, words: Sequence[str], there: Mapping[str, Any], environment: Mapping[str, str]
) -> Iterator[Part]:
    """The task: runs a worker process on this host, and passes on what it says.

    Args:
        words: what follows the interpreter and its flag -P.
        there: the `origin` of the machine where the simulation was started.
    """
    try:
        check_same(there)
    except UserError as error:
        yield worker_messages.WORKER.up.encode(Failed(str(error), by_user=True)), b"", None
        return
    enter_folder_of(there)
    variables = without_secrets({**environment, **there["environment"]})
    with TemporaryDirectory(prefix="swarm-node-cell-") as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-P", *words]
        worker = LocalWorker(command, log, variables, worker_messages.read_frame(order))
        try:
            with log.open("rb") as printed:
                for message in worker.messages():
                    yield worker_messages.WORKER.up.encode(message), printed.read(), None
                ended = worker.last_words(), worker.was_killed()
                yield b"", printed.read(), ended
        finally:
            worker.kill()


def needs(config: SimulationConfig, cell: Cell) -> dict[str, float]:
    """What a cell needs of a host, by Ray's names of resources."""
    memory = config.ray.memory * 1e9 or estimate.of_cell(config, cell)
    gpus = {"GPU": config.ray.gpus} if config.ray.gpus else {}
    return {"CPU": float(config.threads or 1), "memory": memory, **gpus}


def room(host: Mapping[str, float], need: Mapping[str, float]) -> int:
    """How many cells that need so much a host has room for."""
    return min(int(host.get(name, 0.0) // amount) for name, amount in need.items() if amount)


def in_words(need: Mapping[str, float]) -> str:
    """What a cell needs, for a person."""
    gpus = f", {need['GPU']:g} of a GPU" if "GPU" in need else ""
    return f"{need['CPU']:g} cores and {need['memory'] / 1e9:.1f} GB of memory{gpus} for a cell"


def hosts(ray: Any) -> list[Mapping[str, float]]:
    """The resources of each host of the cluster that is alive."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def connect(config: SimulationConfig) -> Any:
    """The library, connected to the cluster of --ray.address, or to a cluster of this machine
    alone, until this process ends. UserError where there is none.
    """
    ray = _library()
    if ray.is_initialized():
        return ray
    where = {"address": config.ray.address} if config.ray.address else _own()
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **where)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        said = reason_of(error) if isinstance(error, OSError) else last_line(str(error), 200)
        raise UserError(
            f"no Ray cluster at {config.ray.address or 'this machine'} ({said}): start one as "
            "docs/how-to/cluster.md shows, and give its address with --ray.address"
        ) from error
    return ray


def _own() -> dict[str, Any]:
    cores = usable_cores()
    return {"num_cpus": cores, "object_store_memory": STORE_BYTES, "include_dashboard": False}


def _library() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
    try:
        import ray
    except ImportError as error:
        raise UserError(EXTRA) from error
    return ray
