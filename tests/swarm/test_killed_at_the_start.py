"""A child that a signal ends while it starts is started again; if that goes on, the command ends
with 75, so that a service manager tries it later, and says in one line what was killed.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from protocol.identity import Identity
from swarm_node.common import children
from swarm_node.common.children import STARTS, ChildKilled
from swarm_node.common.errors import TemporaryError, UserError, exit_code
from swarm_node.environments import elsewhere
from swarm_node.environments.plugged import PluggedKind
from swarm_node.generation.vllm.server import NoServer, VllmServer
from swarm_node.network.process import service
from swarm_node.network.process.messages import Memory
from swarm_node.network.process.service import NetworkService, SampledTasks
from swarm_node.network.transport import p2pd
from swarm_node.network.transport.backends import HostOptions
from swarm_node.scoring.client import ScoringClient, ScoringKilled
from swarm_node.settings import NetworkConfig
from swarm_node.simulation.engines.real_nodes import Process
from tests import preloaded
from tests.commands import ENDS_SECONDS
from tests.own_words import written
from tests.waiting import until

HOSTILE = str(Path(__file__).parents[1] / "core" / "scoring" / "hostile_source.py")
# An interpreter that kills itself the first times that it is to run the program of that name
KILLING = """#!/bin/sh
case " $* " in
*{name}*)
    echo x >>{counted}
    [ "$(wc -l <{counted})" -le {times} ] && kill -{signal} $$
    ;;
esac
exec {python} "$@"
"""
COMMAND = """
import sys
sys.executable = sys.argv.pop(1)
from swarm_node.commands.cli import main
main()
"""


class Killing:
    """Such an interpreter, as a file."""

    def __init__(self, folder: Path, name: str, times: int, number: int = signal.SIGKILL) -> None:
        self.program, self._counted = folder / "killing", folder / "counted"
        values = {"name": name, "times": times, "signal": number, "counted": self._counted}
        self.program.write_text(KILLING.format(python=sys.executable, **values))
        self.program.chmod(0o755)

    @property
    def starts(self) -> int:
        return len(self._counted.read_text().splitlines()) if self._counted.exists() else 0


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "started.py").write_text(COMMAND)
    return written(tmp_path)


def start(killing: Killing, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command, with this interpreter for its children. torch is loaded already."""
    line = [*preloaded.python(), "-m", "started", str(killing.program), *words]
    where = killing.program.parent
    return subprocess.run(
        line, capture_output=True, text=True, timeout=ENDS_SECONDS, check=False, cwd=where
    )


ALONE = "--home {home} --model.name rare --network.no-enabled --max-rounds 1 --round.questions 2"
SIMULATION = "simulate --out {home} --nodes 1 --rounds 1 --arms 2/0 --model.name rare"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("child", "command", "said"),
    [
        ("scoring.server", f"run {ALONE} --environment.tasks gcd/tiny", "the scoring process"),
        ("my_task.py", f"run {ALONE} --environment.use {{task}}:Repeat", "my_task.py:Repeat"),
        ("dataset.compile", "task try {words}", "words.jsonl"),
        ("scoring.sandbox", "doctor --home {home} --model.name rare", "scoring.sandbox"),
        ("simulation.worker", SIMULATION, "the worker"),
    ],
)
def test_a_command_whose_child_is_killed_at_each_start_ends_with_75_and_says_so(
    child: str, command: str, said: str, given: dict[str, Path], tmp_path: Path
) -> None:
    killing = Killing(tmp_path, child, times=100)
    words = command.format_map(given).split()
    done = start(killing, *words)
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("swarm-node: ")]
    assert done.returncode == os.EX_TEMPFAIL, done.stderr
    assert said in line and "Traceback" not in done.stderr
    assert "was killed by SIGKILL, perhaps for lack of memory" in line
    assert killing.starts >= 1


@pytest.mark.slow
def test_a_run_whose_scoring_process_is_killed_once_goes_on(
    given: dict[str, Path], tmp_path: Path
) -> None:
    killing = Killing(tmp_path, "scoring.server", times=1)
    words = f"run {ALONE} --environment.tasks gcd/tiny".format_map(given).split()
    done = start(killing, *words)
    assert (done.returncode, killing.starts) == (0, 2), done.stderr


def ask_of(client: ScoringClient) -> object:
    with client:
        return client.ask([("any", "tiny", 1, 0, None)])[0]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_scoring_process_that_is_killed_is_started_again_a_few_times(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for times, starts in ((STARTS - 1, STARTS), (100, 2 * STARTS)):
        killing = Killing(tmp_path, "scoring.server", times, number)
        monkeypatch.setattr(sys, "executable", str(killing.program))
        client = ScoringClient(HOSTILE, "hostile-1", 1.0, 512)
        if times < STARTS:
            assert isinstance(ask_of(client), str) and client.restarts == times
        else:
            with pytest.raises(ScoringKilled, match=signal.Signals(number).name) as caught:
                ask_of(client)
            assert exit_code(caught.value) == os.EX_TEMPFAIL and "start again" in str(caught.value)
        assert killing.starts == starts


def test_a_mistake_of_the_user_is_no_kill(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        ask_of(ScoringClient("no_such_module", "1", 1.0, 512))
    assert exit_code(caught.value) == 2
    with pytest.raises(UserError) as wrong:
        _ = PluggedKind(f"{tmp_path}/nothing.py:Nothing").facts
    assert exit_code(wrong.value) == 2


def test_readers_of_questions_and_of_environments_are_started_again(
    given: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killing = Killing(tmp_path, "scoring.server", times=STARTS - 1)
    monkeypatch.setattr(sys, "executable", str(killing.program))
    assert PluggedKind(f"{given['task']}:Repeat").facts.name == "repeat"
    assert killing.starts == STARTS


def test_a_reader_that_breaks_down_over_a_file_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killing = Killing(tmp_path, "nothing_here", times=100, number=signal.SIGSEGV)
    monkeypatch.setattr(sys, "executable", str(killing.program))
    with pytest.raises(
        TemporaryError, match="data set x: signal 11 ended the process that reads it"
    ):
        elsewhere.ask("nothing_here", NetworkConfig(), None, "data set x", dict(os.environ))
    assert killing.starts == STARTS


def test_a_child_that_says_something_of_itself_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killing = Killing(tmp_path, "scoring.sandbox", times=1)
    monkeypatch.setattr(sys, "executable", str(killing.program))
    assert children.said_by("swarm_node.scoring.sandbox")["rlimits"]
    assert killing.starts == 2


def test_a_vllm_server_that_is_killed_may_start_later(tmp_path: Path) -> None:
    killing = Killing(tmp_path, "vllm.entrypoints", times=100)
    server = VllmServer(str(killing.program), (), on_cpu=True, log=tmp_path / "log")
    with pytest.raises(NoServer) as caught:
        server.start(lambda url: False, 60.0)
    assert killing.starts == server.starts == STARTS
    assert exit_code(caught.value) == os.EX_TEMPFAIL


def test_a_real_node_of_a_simulation_that_is_killed_is_no_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(Killing(tmp_path, "bootstrap", 100).program))
    node = Process(tmp_path, "bootstrap")
    until(lambda: not node.alive())
    error = RuntimeError("node 0 ended early")
    error.__cause__ = node.killed()
    assert exit_code(error) == os.EX_TEMPFAIL


def test_an_end_by_any_signal_has_words() -> None:
    assert children.ending(-9) == "was killed by SIGKILL, perhaps for lack of memory"
    assert children.ending(-11) == "was killed by SIGSEGV"
    assert children.ending(-40) == "was killed by signal 40"


@pytest.mark.network
def test_a_daemon_that_is_killed_while_it_starts_is_no_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = HostOptions(NetworkConfig(), Identity.create(), ["/ip4/127.0.0.1/tcp/0"])
    spawn = p2pd._spawn

    async def killed(*given: Any) -> Any:
        process = await spawn(*given)
        process.kill()
        return process

    monkeypatch.setattr(p2pd, "_spawn", killed)
    with pytest.raises(ChildKilled, match="p2pd was killed by SIGKILL"):
        asyncio.run(p2pd.Daemon.start(options))


def test_a_bootstrap_node_tries_its_daemon_again_and_then_ends_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried, said = [], list[str]()

    def killed(*given: Any) -> Any:
        tried.append(given)
        raise ChildKilled("the network daemon p2pd", -9)

    monkeypatch.setattr(service, "make_backend", killed)
    monkeypatch.setattr(service, "FIRST_RESTART", 0.0)
    network = NetworkService(
        Identity.create(),
        "test",
        NetworkConfig(host="127.0.0.1", mdns=False),
        Memory(),
        deliver=SampledTasks(lambda cards: None).take,
        say=lambda text, warning: said.append(text),
        changed=lambda addresses: None,
        max_connections=8,
    )
    with pytest.raises(ChildKilled):
        asyncio.run(network.live())
    assert len(tried) == STARTS and "was killed by SIGKILL" in said[-1]
