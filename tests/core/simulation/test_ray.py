"""Simulations on a real Ray cluster of three raylets of this machine, of which one is killed in the
middle; and what a host must have.
"""

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks.raylets import RayCluster, raylets
from swarm_node.common.channel import Failed
from swarm_node.common.errors import UserError
from swarm_node.settings import ModelConfig
from swarm_node.settings.simulation import RayConfig, SimulationConfig
from swarm_node.simulation import cell_pool, estimate
from swarm_node.simulation.arms import Cell, FinishedCell, parse_arm
from swarm_node.simulation.cell_pool import LOSSES, run_cells
from swarm_node.simulation.engines import elsewhere, ray_cluster
from swarm_node.simulation.engines.engine import Worker
from swarm_node.simulation.folder import ReportFolder
from swarm_node.simulation.worker_messages import DoneMessage, FromWorker
from swarm_node.telemetry.events import Event, Notice
from swarm_node.telemetry.jsonlines import read_jsonlines
from tests.commands import started
from tests.waiting import until

SLOW = 900.0  # seconds: Ray starts many processes, which takes its time where other tests run


class Told(Worker):
    """A worker that ends as it is told."""

    def __init__(self, *said: FromWorker, lost: bool = False) -> None:
        self._said, self._lost = said, lost

    def messages(self) -> Iterator[FromWorker]:
        yield from self._said

    def last_words(self) -> str:
        return "its host is gone"

    def was_killed(self) -> bool:
        return False

    def lost(self) -> bool:
        return self._lost

    def kill(self) -> None:
        pass


def outcomes(*lives: Worker) -> tuple[list[FinishedCell | Failed], list[Event]]:
    """How a cell ends whose workers are these, one after another; and what was told."""
    told: list[Event] = []
    waiting = list(lives)
    cells = [Cell(parse_arm("2/0"), 1)]
    pool = run_cells(cells, workers=1, launch=lambda _: waiting.pop(0), emit=told.append)
    return [outcome for _, outcome in pool], told


def test_a_cell_whose_host_was_lost_begins_anew_and_only_so_often() -> None:
    done, told = outcomes(Told(lost=True), Told(DoneMessage(1.0)))
    assert [type(each) for each in done] == [FinishedCell]
    assert [each.text for each in told if isinstance(each, Notice)] == [
        "the host of 2/0 seed 1 was lost; it begins anew on another one"
    ]
    assert cell_pool.LOSSES == LOSSES == 3
    done, told = outcomes(*(Told(lost=True) for _ in range(LOSSES)))
    assert [each.error for each in done if isinstance(each, Failed)] == ["its host is gone"]


def test_a_cell_that_fails_by_itself_does_not_begin_anew() -> None:
    done, _ = outcomes(Told())
    assert [type(each) for each in done] == [Failed]


@pytest.mark.parametrize(
    ("host", "places"),
    [
        ({"CPU": 8.0, "memory": 10e9}, 4),  # by memory
        ({"CPU": 3.0, "memory": 100e9}, 3),  # by cores
        ({"CPU": 8.0, "memory": 2e9}, 0),
        ({"CPU": 8.0}, 0),  # a host that lends no memory
    ],
)
def test_a_host_has_room_by_cores_and_by_the_memory_that_a_cell_is_estimated_to_take(
    host: dict[str, float], places: int
) -> None:
    assert ray_cluster.room(host, {"CPU": 1.0, "memory": 2.5e9}) == places


def test_a_cell_reserves_what_it_is_estimated_to_take_or_what_the_user_says() -> None:
    config, cell = SimulationConfig(arms=("2/0",)), Cell(parse_arm("2/0"), 0)
    assert ray_cluster.needs(config, cell) == {"CPU": 1.0, "memory": estimate.of_cell(config, cell)}
    assert estimate.of_cell(config, cell) >= estimate.PROCESS
    said = config.model_copy(update={"ray": RayConfig(memory=3.0, gpus=0.5), "threads": 2})
    assert ray_cluster.needs(said, cell) == {"CPU": 2.0, "memory": 3e9, "GPU": 0.5}


def test_a_host_with_other_code_or_packages_is_refused() -> None:
    here = elsewhere.origin()
    elsewhere.check_same(here)
    with pytest.raises(UserError, match="has other code: install commit abc of the machine"):
        elsewhere.check_same({**here, "code": "0", "commit": "abc"})
    with pytest.raises(UserError, match=r"has torch .* has 1\.0: install the same version on both"):
        elsewhere.check_same({**here, "versions": {**here["versions"], "torch": "1.0"}})


def test_what_was_begun_here_goes_on_over_a_cluster_and_not_over_real_nodes(tmp_path: Path) -> None:
    config = SimulationConfig(out=tmp_path / "run")
    ReportFolder(config.out).prepare(config)
    (config.out / "cells" / "2_0-0.json").write_text("{}")
    cluster = {"resume": True, "engine": "ray", "ray": RayConfig(address="auto")}
    assert ReportFolder(config.out).prepare(config.model_copy(update=cluster)) is None
    real = {"resume": True, "engine": "process"}
    with pytest.raises(UserError, match="engine was 'memory', is 'process'"):
        ReportFolder(config.out).prepare(config.model_copy(update=real))


def test_without_ray_the_user_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'textswarm\[ray\]'"):
        ray_cluster.RayEngine().check(SimulationConfig(engine="ray"))


# What follows needs the extra.

OWN_CLUSTER = """
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.engines import ray_cluster
config = SimulationConfig(engine="ray")
ray_cluster.RayEngine().check(config)
ray = ray_cluster.connect(config)
assert ray_cluster.hosts(ray)
print(ray.get_runtime_context().gcs_address, flush=True)
input()
"""
STRANGER = """
import sys, ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
print(ray.get(ray.remote(lambda: "what I say").remote(), timeout=60))
"""


@pytest.mark.slow
@pytest.mark.timeout(SLOW)
@pytest.mark.parametrize("mode", ["disabled", "token"])
def test_nobody_else_runs_anything_on_a_cluster_of_our_own(tmp_path: Path, mode: str) -> None:
    """Ray listens on all addresses of this machine, and runs what it is sent."""
    pytest.importorskip("ray")
    (home := tmp_path / "home").mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment = {**clean, "HOME": str(home)}
    words = [sys.executable, "-c", OWN_CLUSTER]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=environment, **pipes) as cluster:
        assert cluster.stdin is not None and cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        stranger = {**environment, "RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": "0" * 64}
        words = [sys.executable, "-c", STRANGER, address]
        tried = subprocess.run(words, env=stranger, capture_output=True, text=True, check=False)
        cluster.stdin.write("\n")
        cluster.stdin.flush()
    assert cluster.returncode == 0 and address
    assert "what I say" not in tried.stdout and "ConnectionError" in tried.stderr
    assert not list(home.iterdir()), "where others could read the token"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    ray = pytest.importorskip("ray")
    with raylets(3) as found:
        yield found
        ray.shutdown()


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    """Events of this name, as far as they are written."""
    path = folder / "events.jsonl"
    written = read_jsonlines(path) if path.exists() else []
    return [event for event in written if event["event"] == name]


def lost(folder: Path) -> list[dict[str, Any]]:
    """The notices that a host was lost."""
    return [
        event for event in events(folder, "Notice") if "was lost; it begins anew" in event["text"]
    ]


def files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def learnt(folder: Path) -> dict[str, Any]:
    """A report without what depends on the machine."""
    told = json.loads((folder / "report.json").read_text())
    return {key: value for key, value in told.items() if key != "cost"}


@pytest.mark.slow
@pytest.mark.timeout(SLOW)
def test_when_one_of_three_raylets_is_killed_all_cells_are_done_as_by_local_workers(
    configure, run, tmp_path, cluster
) -> None:
    (gate := tmp_path / "gate").touch()
    model = ModelConfig(name=f"waits:{gate}")  # in its third round, while that file exists
    here = configure(out=tmp_path / "here", model=ModelConfig(name=f"waits:{tmp_path / 'none'}"))
    run(here)
    there = {"out": tmp_path / "there", "engine": "ray", "ray": at(cluster), "workers": 3}
    config = configure(model=model, **there)

    def lose_one() -> None:
        # Of three cells, each of which waits in its third round
        until(lambda: len(events(config.out, "CellRound")) == 3 * 2, SLOW, "cells on all raylets")
        cluster.kill_one()
        try:  # a cell that went on at once could end before Ray notices that its host is dead
            until(lambda: lost(config.out), SLOW / 2, "the loss is noticed")
        finally:
            gate.unlink()

    killing = threading.Thread(target=lose_one)
    killing.start()
    run(config)
    killing.join()
    assert len(events(config.out, "CellFinished")) == 4
    assert lost(config.out)
    assert learnt(config.out) == learnt(here.out)
    assert files(config.out) == files(here.out)


def at(cluster: RayCluster) -> RayConfig:
    return RayConfig(address=cluster.address)


@pytest.mark.slow
@pytest.mark.timeout(SLOW)
def test_a_cell_that_fails_on_the_cluster_leaves_what_it_printed_here(
    configure, run, tmp_path, cluster
) -> None:
    config = configure(model=ModelConfig(name="raises-for-sharers"), engine="ray", ray=at(cluster))
    with pytest.raises(UserError, match=r"2 of 4 cells failed.*ValueError: no such weights"):
        run(config)
    assert "Traceback" in (config.out / "cells" / "4_4-0.log").read_text()
    assert not (config.out / "cells" / "8_0-0.log").exists()


@pytest.mark.slow
@pytest.mark.timeout(SLOW)
@pytest.mark.parametrize(
    ("trouble", "message"), [("dies", "killed by SIGKILL"), ("exits", "status 3")]
)
def test_however_a_worker_of_the_cluster_ends_it_is_one_line(
    configure, run, cluster, trouble, message
) -> None:
    model = ModelConfig(name=trouble)
    config = configure(arms=("8/0",), seeds=1, model=model, engine="ray", ray=at(cluster))
    with pytest.raises(UserError) as error:
        run(config)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.timeout(SLOW)
def test_a_cell_that_is_too_large_for_every_host_is_refused_before_anything_starts(
    configure, run, cluster
) -> None:
    config = configure(engine="ray", ray=RayConfig(address=cluster.address, memory=500.0))
    said = "no host of the Ray cluster has room for 1 cores and 500.0 GB of memory for a cell"
    for workers in (0, 4):
        with pytest.raises(UserError, match=said):
            run(config.model_copy(update={"workers": workers}))


PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "cluster.md"


@pytest.mark.slow
@pytest.mark.timeout(3 * SLOW)
def test_the_page_of_the_cluster_leads_to_a_report_of_real_nodes(tmp_path, cluster) -> None:
    """Its commands for a simulation, on this cluster, with fewer rounds; beside the same here."""
    lines = [
        line for line in PAGE.read_text().splitlines() if line.startswith("swarm-node simulate")
    ]
    assert len(lines) == 2, "one that runs, and one that goes on"
    for line in lines:
        words = [word.replace("HEAD:6379", cluster.address) for word in shlex.split(line)[1:]]
        told = started(*words, "--rounds", 3, "--nodes", 3, loaded=True, cwd=tmp_path)
        output, _ = told.communicate(timeout=SLOW)
        assert told.returncode == 0, output
    alone = [word for word in shlex.split(lines[0])[1:] if "ray" not in word and "HEAD" not in word]
    alone = [word for word in alone if word != "--engine"]
    alone[alone.index("--out") + 1] = "here"
    done = started(*alone, "--rounds", 3, "--nodes", 3, loaded=True, cwd=tmp_path)
    output, _ = done.communicate(timeout=SLOW)
    assert done.returncode == 0, output
    there = tmp_path / shlex.split(lines[0])[-1]
    assert learnt(there)["arms"] == learnt(tmp_path / "here")["arms"]
