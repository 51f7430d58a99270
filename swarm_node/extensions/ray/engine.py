"""A simulation on a Ray cluster: its cells as tasks, over all hosts.

A task starts the same worker process as on one machine and passes on what it says: rewards are the same to the bit. A
cell whose host was lost begins anew on another. Needs the extra `ray`.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from swarm_node.common.channel import Failed
from swarm_node.common.children import usable_cores, without_secrets
from swarm_node.common.errors import UserError, first_line
from swarm_node.extensions.ray.elsewhere import check_same, folder_of, origin
from swarm_node.extensions.simulation import worker_messages
from swarm_node.extensions.simulation.arms import Cell
from swarm_node.extensions.simulation.engines.engine import Engine, Launch, Worker
from swarm_node.extensions.simulation.settings import SimulationConfig

STORE = 100_000_000  # bytes of the object store of a cluster of our own: what crosses is text


class RayEngine(Engine):
    """Implements engine.Engine. Its workers do what those of the engine in memory do, on the hosts of a cluster."""

    def check(self, config: SimulationConfig) -> None:
        """That Ray is installed."""
        _library()

    def cells_at_once(self, config: SimulationConfig) -> int:
        """As many as the cluster has cores for."""
        return max(1, int(connect(config).cluster_resources().get("CPU", 1) // (config.threads or 1)))

    def launch(self, config: SimulationConfig, log: Callable[[Cell], Path], command: Sequence[str]) -> Launch:
        """Tasks on the cluster."""
        ray, there = connect(config), origin()
        # No retries of Ray's: a cell that begins anew would repeat rounds that were passed on.
        options = {"num_cpus": config.threads or 1, "num_gpus": config.ray.gpus, "max_retries": 0}
        task = ray.remote(run_worker).options(num_returns="streaming", scheduling_strategy="SPREAD", **options)
        environment = worker_messages.node_environment(config)

        def launch(cell: Cell) -> Worker:
            order = worker_messages.write_order(config, cell)
            return RayWorker(ray, task.remote(order, command[1:], there, environment))

        return launch


class RayWorker(Worker):
    """A task, from which messages come as a stream."""

    def __init__(self, ray: Any, stream: Any) -> None:
        self._ray, self._stream = ray, stream
        self._error: Exception | None = None

    def messages(self) -> Iterator[worker_messages.FromWorker]:
        """As the task passes them on."""
        try:
            for message in self._stream:
                yield self._ray.get(message)
        except self._ray.exceptions.RayError as error:
            self._error = error

    def last_words(self) -> str:
        return " ".join(str(self._error or "the task ended without a message").split())[-300:]

    def lost(self) -> bool:
        """As Ray says."""
        task = self._ray.exceptions.RayTaskError  # raised in the task, so its host is well
        return self._error is not None and not isinstance(self._error, task)

    def kill(self) -> None:
        """The worker process ends with its pipe."""
        with suppress(Exception):  # the cluster may be gone
            self._ray.cancel(self._stream, force=True)


def run_worker(
    order: worker_messages.Order, words: Sequence[str], there: Mapping[str, Any], environment: dict[str, str]
) -> Iterator[worker_messages.FromWorker]:
    """The task: messages of a worker process, which ends with the task, however that ends. `words` come behind the
    interpreter; `there` is the driver's origin."""
    try:
        check_same(there)
    except UserError as error:
        yield Failed(str(error), by_user=True)
        return
    with tempfile.TemporaryFile() as errors:
        variables = without_secrets({**environment, **there["environment"]})
        process = worker_messages.spawned([sys.executable, *words], errors, variables, folder_of(there))
        try:
            said = None
            for said in worker_messages.said_by(process, order):
                yield said
            if said is None:
                errors.seek(max(0, errors.tell() - 2000))
                raise RuntimeError(errors.read().decode(errors="replace").strip() or "it said nothing")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def connect(config: SimulationConfig) -> Any:
    """The library, connected to the cluster of `ray.address`, or to one of our own on this machine, until this process
    ends: several simulations may share it. UserError where there is none."""
    ray = _library()
    if ray.is_initialized():
        return ray
    where = {"address": config.ray.address} if config.ray.address else _own()
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **where)
    except (ConnectionError, ValueError, RuntimeError) as error:
        said = first_line(error)
        raise UserError(
            f"no Ray cluster at {config.ray.address or 'this machine'}: {said}; start one by ray start"
        ) from error
    return ray


def _own() -> dict[str, Any]:
    return {"num_cpus": usable_cores(), "object_store_memory": STORE, "include_dashboard": False}


def _library() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UserError("--engine ray needs Ray: pip install 'swarm-node[ray]'") from error
    return ray
