"""A Ray cluster of several raylets on this machine, as hosts that can be lost.

    python -m lab.benchmarks.raylets --count 3

The first line out is the address. Each line in kills a raylet, with all that runs on it, and is
answered by a line. The cluster ends with the input.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from lab.benchmarks import command
from lab.benchmarks.waiting import until

STORE = 80_000_000  # bytes of each object store; Ray takes no less than 75 MB
MEMORY = 2_000_000_000  # bytes that each raylet says it has, so that three fit on one machine
# So that a raylet that was killed is missed within seconds, and workers wait for nothing else here
QUICKLY = {
    "health_check_period_ms": "500",
    "health_check_failure_threshold": "2",
    "health_check_timeout_ms": "2000",
}
VARIABLES = {f"RAY_{name}": value for name, value in {**QUICKLY, "worker_niceness": "0"}.items()}


class RayCluster:
    """The cluster, in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.address = self._read()

    def kill_one(self) -> None:
        """The raylet that came last, when it is dead."""
        assert self._process.stdin is not None
        self._process.stdin.write("kill\n")
        self._process.stdin.flush()
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def raylets(count: int = 3) -> Iterator[RayCluster]:
    """Starts a Ray cluster of this number of hosts, with one CPU each. When the context ends, all
    of Ray's processes have ended.
    """
    words = [sys.executable, "-m", "lab.benchmarks.raylets", "--count", str(count)]
    environment = {**os.environ, **VARIABLES, "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=command.ROOT,
        start_new_session=True,
    )
    try:
        yield RayCluster(process)
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=60)
        until(lambda: not any(map(_lives, family)), 60, "Ray's end")


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def main() -> None:
    from ray.cluster_utils import Cluster  # now: an extra

    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.raylets", description=__doc__)
    parser.add_argument("--count", type=int, default=3)
    count = parser.parse_args().count
    options = {"num_cpus": 1, "object_store_memory": STORE, "memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    others = [cluster.add_node(**options) for _ in range(count - 1)]
    sys.stdout.write(f"{cluster.address}\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        cluster.remove_node(others.pop(), allow_graceful=False)
        sys.stdout.write("killed\n")
        sys.stdout.flush()
    cluster.shutdown()


if __name__ == "__main__":
    main()
