"""A simulation on a real Ray cluster of two raylets on this machine, of which one is killed in the middle."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_node.common.errors import UserError
from swarm_node.extensions.ray import elsewhere
from swarm_node.extensions.simulation.folder import ReportFolder
from swarm_node.extensions.simulation.settings import SimulationConfig
from swarm_node.telemetry.jsonlines import read_jsonlines
from tests.commands import started
from tests.extensions.ray.raylets import Raylets, raylets
from tests.waiting import until

ray = pytest.importorskip("ray")
FLAGS = ["--nodes", "3", "--round.questions", "2", "--model.name", "dense", "--rounds", "2"]
ARMS = ("2/0", "1/1")  # one for each raylet


@pytest.fixture(scope="module")
def cluster() -> Iterator[Raylets]:
    with raylets(2) as found:
        yield found


def rewards(folder: Path, arm: str) -> object:
    report = json.loads((folder / "report.json").read_text())
    return report["arms"][arm]["rewards"], report["arms"][arm]["node_rewards"]


def events(folder: Path) -> list[dict[str, object]]:
    """As far as they are written."""
    path = folder / "events.jsonl"
    return list(read_jsonlines(path)) if path.exists() else []


def finish(simulation: "subprocess.Popen[str]") -> None:
    output, _ = simulation.communicate(timeout=900)
    assert simulation.returncode == 0, output


@pytest.mark.slow
@pytest.mark.timeout(2700)  # Ray starts many processes, which takes its time where other tests run
def test_cells_over_two_raylets_give_the_rewards_of_one_process(tmp_path, cluster):
    where = ["--engine", "ray", "--ray.address", cluster.address]
    over = started("simulate", *FLAGS, "--arms", ",".join(ARMS), *where, "--out", tmp_path / "cells", loaded=True)
    until(lambda: any(each["event"] == "CellRound" for each in events(tmp_path / "cells")), 900, "a round")
    cluster.kill_one()
    finish(over)
    assert sum(each["event"] == "CellFinished" for each in events(tmp_path / "cells")) == len(ARMS)
    finish(started("simulate", *FLAGS, "--arms", ",".join(ARMS), "--out", tmp_path / "here", loaded=True))
    for arm in ARMS:
        assert rewards(tmp_path / "cells", arm) == rewards(tmp_path / "here", arm)


def test_what_was_begun_here_goes_on_over_a_cluster_and_not_over_real_nodes(tmp_path):
    config = SimulationConfig(out=tmp_path / "run")
    ReportFolder(config.out).prepare(config)
    resumed = config.model_copy(update={"resume": True, "engine": "ray"})
    assert ReportFolder(config.out).prepare(resumed) is None
    with pytest.raises(UserError, match="engine was 'memory', is 'process'"):
        ReportFolder(config.out).prepare(config.model_copy(update={"resume": True, "engine": "process"}))


def test_a_host_with_other_code_or_packages_is_refused():
    here = elsewhere.origin()
    elsewhere.check_same(here)
    with pytest.raises(UserError, match="has other code: install commit abc there"):
        elsewhere.check_same({**here, "code": "0", "commit": "abc"})
    with pytest.raises(UserError, match=r"has torch .*, not 1\.0: install the same there"):
        elsewhere.check_same({**here, "versions": {**here["versions"], "torch": "1.0"}})
    assert elsewhere.folder_of({"folder": "/nowhere"}) is None
