"""The present code goes on with what 0.1.0 left: homes, their waiting rounds, an interrupted simulation.

tests/data/0.1.0 was made by `python -m tests.data.make_home`, whose code is that of the tag v0.1.0.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks.compatibility import clean
from swarm_node.common import renamed
from swarm_node.network.process import control
from swarm_node.network.process.service import free_port
from swarm_node.telemetry.events import CellFailed, Warned
from swarm_node.telemetry.jsonlines import JsonLines, read_jsonlines
from swarm_node.telemetry.sinks import Telemetry
from swarm_node.training.checkpoint import all_checkpoints
from tests.commands import ended, started
from tests.data import keys
from tests.data.make_home import ASYNCHRONOUS, DATA, SIMULATION
from tests.network.test_nodes import healthy, in_the_end
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.slow
HOMES = {"synchronous": (), "asynchronous": ASYNCHRONOUS}
MORE = 4  # rounds
KNOWN = json.loads((DATA / "keys.json").read_text())


def copied(to: Path) -> Path:
    """To run in: the homes hold the model's folder as it was given, relative to where the node was started."""
    copy = Path(shutil.copytree(DATA, to / "copy"))
    for key in copy.glob("*/identity.key"):
        key.chmod(0o600)  # git does not keep modes
    return copy


def with_free_ports(folder: Path) -> None:
    """Those that the homes had, and that they know of each other, may be taken here."""
    files = [folder / name / "peers.json" for name in HOMES]
    for port in [json.loads(file.read_text())["port"] for file in files]:
        free = free_port()
        for file in files:
            file.write_text(re.sub(rf"\b{port}\b", str(free), file.read_text()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copied(tmp_path)


def state(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((all_checkpoints(home / "checkpoints")[-1] / "state.json").read_text())
    return found


def events(folder: Path) -> list[dict[str, Any]]:
    return list(read_jsonlines(folder / "events.jsonl"))


def reports(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["report"] for event in events if event["event"] == "RoundDone"]


def remembered(pool: Mapping[str, list[Any]]) -> set[tuple[str, str]]:
    """Author and question of all that was received, whether it waits or is spent."""
    waiting = [json.loads(text) for _, text in renamed.present(renamed.POOL, pool)["waiting"]]
    found = {(group["author"], json.dumps(group["question"])) for group in waiting}
    for _, text in pool["spent"]:
        author, question = text.split(" ", 1)
        found.add((author, json.dumps(json.loads(question))))
    return found


@dataclass(frozen=True)
class GoneOn:
    """A home before, and after the present code went on with it twice."""

    home: Path
    before: dict[str, Any]  # the state of its newest checkpoint
    had: list[dict[str, Any]]  # events
    key: bytes
    went: list["subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module", params=HOMES)
def gone_on(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GoneOn:
    folder = copied(tmp_path_factory.mktemp(request.param))
    home = folder / request.param
    before, had, key = state(home), events(home), (home / "identity.key").read_bytes()
    flags = ("--home", request.param, "--network.no-enabled", *HOMES[request.param])
    last = [before["rounds"] + times * MORE for times in (1, 2)]
    went = [ended("run", "node.toml", *flags, "--max-rounds", rounds, cwd=folder) for rounds in last]
    return GoneOn(home, before, had, key, went)


def test_a_home_goes_on_where_it_was_and_can_be_gone_on_with_again(gone_on: GoneOn) -> None:
    home, before, had = gone_on.home, gone_on.before, gone_on.had
    done = before["rounds"]
    for times, went in enumerate(gone_on.went):
        assert went.returncode == 0, went.stdout + went.stderr
        assert f"resumed after {done + times * MORE} rounds" in went.stdout
        assert "warning" not in went.stdout + went.stderr
    now, after = state(home), events(home)
    assert after[: len(had)] == had  # what 0.1.0 wrote is read, and added to
    more = after[len(had) :]
    assert not [event for event in more if event["event"] == "Warned"]
    assert [report["round"] for report in reports(more)] == list(range(done, done + 2 * MORE))
    assert {report["peer_id"] for report in reports(more)} == {before["extra"]["peer_id"]}
    assert (home / "identity.key").read_bytes() == gone_on.key
    assert sum(each["external_informative"] for each in reports(more)) > 0  # nobody was there: it was in the pool
    assert remembered(now["extra"]["pool"]) == remembered(before["extra"]["pool"])
    assert (
        len(now["extra"]["defence"]["external"])
        >= len(renamed.present(renamed.ALARM, before["extra"]["defence"])["external"])
        > 0
    )
    assert (now["rounds"], now["version"], now["extra"]["waiting"]) == (done + 2 * MORE, done + 2 * MORE, [])
    assert now["optimizer_steps"] > before["optimizer_steps"]


@pytest.mark.parametrize("gone_on", ["asynchronous"], indirect=True)
def test_rounds_that_waited_are_trained_on_as_they_were_generated(gone_on: GoneOn) -> None:
    waiting = [json.loads(text) for text in gone_on.before["extra"]["waiting"]]
    assert waiting and all("ledger" in written for written in waiting)  # the format of 0.1.0
    first = reports(events(gone_on.home)[len(gone_on.had) :])[: len(waiting)]
    for written, report in zip(waiting, first, strict=True):
        rewards = [reward for scored in written["groups"] for reward in scored["rewards"]]
        assert report["round"] == written["round"]
        assert report["reward"] == pytest.approx(sum(rewards) / len(rewards))
        assert report["skipped"].items() >= written["ledger"]["skipped"].items()
        assert report["seconds"]["generate"] >= written["ledger"]["seconds"]["generate"]


@dataclass(frozen=True)
class Met:
    """Both nodes on loopback, whose doctor found nothing wrong, and what `status` said of them."""

    before: int  # exit code of the doctor before they were started
    codes: list[int]  # of the nodes
    status: list[dict[str, Any]]
    written: list[dict[str, Any]]  # events


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Met:
    folder = copied(tmp_path_factory.mktemp("met"))
    with_free_ports(folder)

    def answers() -> bool:
        found = [control.ask(folder / name) or {} for name in HOMES]
        return all(each.get("network", {}).get("connected") and "round" in each["training"] for each in found)

    before = ended("doctor", "node.toml", "--home", "synchronous", cwd=folder)
    had = {name: len(events(folder / name)) for name in HOMES}
    known = json.loads((folder / "asynchronous" / "peers.json").read_text())["peers"][0]["addresses"][0]
    flags = {"synchronous": (), "asynchronous": (*ASYNCHRONOUS, "--peers", known)}
    with ExitStack() as stack:
        nodes = []
        for name in HOMES:
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            node = started("run", "node.toml", "--home", name, *flags[name], cwd=folder, stdout=log)
            stack.callback(node.kill)
            nodes.append(node)
        until(answers, 600, "meeting")
        status = [healthy(folder / name) for name in HOMES]
        in_the_end("doctor", "node.toml", "--home", "synchronous", cwd=folder)
        for node in nodes:
            node.terminate()
        codes = [node.wait(PATIENCE) for node in nodes]
    written = [event for name in HOMES for event in events(folder / name)[had[name] :]]
    return Met(before.returncode, codes, status, written)


@dataclass(frozen=True)
class Simulated:
    """The interrupted simulation, gone on with."""

    went: "subprocess.CompletedProcess[str]"
    cell: tuple[bytes, bytes]  # the finished one, before and after
    report: dict[str, Any]
    written: list[dict[str, Any]]  # events
    kept: bool  # those that were there before


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    folder = copied(tmp_path_factory.mktemp("simulated"))
    out = folder / "simulation"
    had = events(out)
    (cell,) = (out / "cells").glob("*.json")
    before = cell.read_bytes()
    went = ended("simulate", *SIMULATION, "--out", "simulation", "--resume", cwd=folder, env=clean())
    report = json.loads((out / "report.json").read_text()) if went.returncode == 0 else {}
    after = events(out)
    return Simulated(went, (before, cell.read_bytes()), report, after[len(had) :], after[: len(had)] == had)


@pytest.mark.network
def test_homes_meet_again_and_the_commands_about_them_find_nothing_wrong(met: Met) -> None:
    assert met.before == 1  # alone: the other was not there yet
    assert met.codes == [0, 0]
    assert all(status["healthy"] for status in met.status)


@pytest.mark.network
def test_status_has_every_key_that_it_had(met: Met) -> None:
    said = {key for status in met.status for key in keys.names(status)}
    assert set(KNOWN["status --json"]) - said == set()


def test_an_interrupted_simulation_is_gone_on_with_although_there_are_new_options(simulated: Simulated) -> None:
    assert simulated.went.returncode == 0, simulated.went.stdout + simulated.went.stderr
    assert "1 of 2 cells are finished" in simulated.went.stdout
    before, after = simulated.cell
    assert before == after and simulated.kept
    curve = [line["reward"] for line in json.loads(before)["rounds"]]
    assert simulated.report["arms"]["2/0"]["rewards"] == [curve]
    assert {event["arm"] for event in simulated.written if event["event"] == "CellRound"} == {"1/1"}


def test_an_interrupted_simulation_is_not_gone_on_with_under_other_options(folder: Path) -> None:
    changed = ("--training.learning-rate", "1e-5", "--out", "simulation", "--resume")
    went = ended("simulate", *SIMULATION, *changed, cwd=folder, env=clean())
    assert went.returncode == 2
    assert "training.learning_rate was 0.0003, is 1e-05" in went.stderr


def test_the_report_has_every_key_that_it_had(simulated: Simulated) -> None:
    assert set(KNOWN["report.json"]) - set(keys.names(simulated.report)) == set()


@pytest.mark.network
def test_every_event_has_every_key_that_it_had(met: Met, simulated: Simulated, tmp_path: Path) -> None:
    with Telemetry([JsonLines(tmp_path / "events.jsonl", print)]) as telemetry:  # nothing above went wrong
        telemetry.emit(Warned("disk"))
        telemetry.emit(CellFailed("4/4", 0, "killed"))
    written = keys.of_events([*met.written, *simulated.written, *events(tmp_path)])
    assert set(KNOWN["events.jsonl"]) - written == set()
