"""A simulation on a real Ray cluster of three raylets on this machine, of which one is killed in the middle."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.commands import started
from tests.waiting import until

ray = pytest.importorskip("ray")
FLAGS = ["--nodes", "3", "--round.questions", "2", "--model.name", "dense", "--rounds", "3"]
ARMS = ("2/0", "1/1", "0/2")  # one for each raylet
STORE = 80_000_000  # bytes; Ray takes no less than 75 MB
CLUSTER = f"""
import sys
from ray.cluster_utils import Cluster
options = {{"num_cpus": 1, "object_store_memory": {STORE}, "include_dashboard": False}}
cluster = Cluster(initialize_head=True, head_node_args=options)
nodes = [cluster.add_node(num_cpus=1, object_store_memory={STORE}) for _ in range(2)]
print(cluster.address, flush=True)
for line in sys.stdin:
    cluster.remove_node(nodes.pop(), allow_graceful=False)
    print("removed", flush=True)
cluster.shutdown()
"""


@pytest.fixture
def cluster() -> Iterator["subprocess.Popen[str]"]:
    """Its process: the first line out is the address, and a line in kills a raylet."""
    quiet = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_health_check_period_ms": "500"}
    quiet |= {"RAY_health_check_failure_threshold": "2", "RAY_health_check_timeout_ms": "2000"}
    quiet["RAY_worker_niceness"] = "0"  # else workers wait for whatever else runs here
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-c", CLUSTER], text=True, env=quiet, start_new_session=True, **pipes)
    yield process
    family = psutil.Process(process.pid).children(recursive=True)
    process.stdin.close()
    process.wait(timeout=30)
    until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family), 30, "Ray's end")


def rewards(folder: Path, arm: str) -> object:
    report = json.loads((folder / "report.json").read_text())
    return report["arms"][arm]["rewards"], report["arms"][arm]["node_rewards"]


def events(folder: Path) -> list[dict[str, object]]:
    path = folder / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def finish(simulation: "subprocess.Popen[str]") -> None:
    output, _ = simulation.communicate(timeout=300)
    assert simulation.returncode == 0, output


@pytest.mark.slow
@pytest.mark.timeout(900)  # Ray starts many processes, which takes its time where other tests run
def test_cells_and_nodes_over_three_raylets_give_the_rewards_of_one_process(tmp_path, cluster):
    address = cluster.stdout.readline().strip()
    where = ["--engine", "ray", "--ray.address", address]
    over = started("simulate", *FLAGS, "--arms", ",".join(ARMS), *where, "--out", tmp_path / "cells")
    until(lambda: any(each["event"] == "CellRound" for each in events(tmp_path / "cells")), 300, "a round")
    cluster.stdin.write("kill\n")
    cluster.stdin.flush()
    finish(over)
    assert sum(each["event"] == "CellFinished" for each in events(tmp_path / "cells")) == len(ARMS)
    nodes = [*where, "--ray.spread", "nodes", "--out", tmp_path / "nodes"]
    finish(started("simulate", *FLAGS, "--arms", "1/1", *nodes))
    finish(started("simulate", *FLAGS, "--arms", ",".join(ARMS), "--out", tmp_path / "here"))
    for arm in ARMS:
        assert rewards(tmp_path / "cells", arm) == rewards(tmp_path / "here", arm)
    assert rewards(tmp_path / "nodes", "1/1") == rewards(tmp_path / "here", "1/1")
