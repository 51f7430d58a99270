"""Workers by a command prefix: a real sshd on loopback with keys of its own, and what must be the same over there."""

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from swarm_node.common.errors import UserError
from swarm_node.extensions.simulation import elsewhere
from swarm_node.extensions.simulation.arms import Cell, parse_arm
from swarm_node.extensions.simulation.worker_messages import read_order, write_order
from swarm_node.extensions.simulation.workers import prefixes_of, remote_command
from swarm_node.settings import SimulationConfig
from tests.commands import ENDS_SECONDS, ended, started
from tests.waiting import until

FLAGS = ["--arms", "2/0,1/1", "--nodes", "2", "--round.questions", "2", "--model.name", "dense", "--workers", "2"]
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[str]:
    """The prefix of a command that reaches an sshd of this test, with keys that exist in it alone."""
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it, empty
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nAuthorizedKeysFile {folder / 'authorized'}\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
    )
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "config"], stderr=(folder / "log").open("w"))
    known = f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}"
    (folder / "known").write_text(known)
    try:
        until(lambda: "listening" in (folder / "log").read_text(), what="sshd")
        yield (
            f"ssh -F none -p {port} -i {folder / 'user'} -o UserKnownHostsFile={folder / 'known'} -o BatchMode=yes "
            f"-o LogLevel=ERROR {getpass.getuser()}@127.0.0.1"
        )
    finally:
        server.kill()
        server.wait()


def rewards(folder: Path) -> dict[str, object]:
    report = json.loads((folder / "report.json").read_text())
    return {name: (arm["rewards"], arm["node_rewards"]) for name, arm in report["arms"].items()}


def workers(folder: Path) -> list[psutil.Process]:
    """Worker processes on this machine that have taken this folder over. Other tests have workers, too."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = process.info["cmdline"] or []
        if (
            "swarm_node.extensions.simulation.worker" in words
            and words[0] != "ssh"
            and process.info["cwd"] == str(folder)
        ):
            found.append(process)
    return found


@pytest.mark.slow
@pytest.mark.skipif(SSHD is None, reason="no sshd: apt-get install openssh-server")
def test_workers_over_ssh_compute_the_same_and_end_with_the_driver(tmp_path, ssh):
    over = started("simulate", *FLAGS, "--rounds", 2, "--out", tmp_path / "over", "--workers-by", ssh)
    here = ended("simulate", *FLAGS, "--rounds", 2, "--out", tmp_path / "here")
    output, _ = over.communicate(timeout=ENDS_SECONDS)
    assert over.returncode == here.returncode == 0, output + here.stdout + here.stderr
    assert rewards(tmp_path / "over") == rewards(tmp_path / "here")

    long = ("simulate", *FLAGS, "--rounds", 10_000, "--out", tmp_path / "long", "--workers-by", ssh)
    driver = started(*long, cwd=tmp_path)
    try:
        until(lambda: len(workers(tmp_path)) == 2, what="two workers at the other end")
        ours = workers(tmp_path)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
    until(lambda: not any(process.is_running() for process in ours), what="the end of the workers")


SLURM = """ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
NodeName={name} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes={name} Default=YES State=UP
"""


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment in which commands of Slurm reach a cluster of this machine alone, with daemons of this test."""
    folder = tmp_path / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = [one.getsockname()[1], two.getsockname()[1]]
    name = socket.gethostname().split(".")[0]
    (folder / "slurm.conf").write_text(SLURM.format(name=name, folder=folder, ports=ports))
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o600)
    files = [
        f"--{kind}={folder}/munge.{kind.split('-')[0]}" for kind in ("socket", "pid-file", "log-file", "seed-file")
    ]
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    path = "/usr/sbin:/usr/bin"
    commands = [["munged", "--foreground", "--force", f"--key-file={folder / 'key'}", *files]]
    commands += [["slurmctld", "-D"], ["slurmd", "-D"]]
    daemons = []
    try:
        for words in commands:
            daemons.append(subprocess.Popen([shutil.which(words[0], path=path), *words[1:]], **quiet))
            if words[0] == "munged":
                until((folder / "munge.socket").exists, what="munged")
        until(lambda: "idle" in asked("sinfo", "-h", "-o", "%t", env=environment), what="a node of Slurm")
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.kill()
            daemon.wait()


def asked(*words: str, env: dict[str, str]) -> str:
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("srun") is None, reason="no Slurm: apt-get install slurm-wlm munge")
def test_jobs_of_slurm_end_with_the_driver_those_that_wait_too(tmp_path, slurm):
    words = ("simulate", *FLAGS[:-1], 3, "--seeds", 2, "--rounds", 10_000, "--out", tmp_path / "out")
    driver = started(*words, "--workers-by", "srun -N1 -n1", env=slurm)
    try:
        events = tmp_path / "out" / "events.jsonl"
        until(lambda: events.exists() and "CellRound" in events.read_text(), 300, "a round")
        until(lambda: sorted(asked("squeue", "-h", "-o", "%t", env=slurm).split()) == ["PD", "R", "R"], what="a queue")
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
    until(lambda: not asked("squeue", "-h", env=slurm), what="the end of all jobs")


def order(**changes: object) -> str:
    there = {**elsewhere.origin(), "folder": "/nowhere", "environment": {}, **changes}
    return write_order(SimulationConfig(), Cell(parse_arm("4/4"), 1), there)


def test_a_worker_that_is_the_same_takes_the_order():
    assert read_order(order())[1] == Cell(parse_arm("4/4"), 1)


def test_other_code_is_refused():
    with pytest.raises(UserError, match="has other code: install commit abc there"):
        read_order(order(code="0", commit="abc"))


def test_another_package_is_refused():
    with pytest.raises(UserError, match=r"has torch .*, not 1\.0: install the same there"):
        read_order(order(versions={**elsewhere.origin()["versions"], "torch": "1.0"}))


def test_folder_and_environment_are_taken_over(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("HF_HOME", "before")
    read_order(order(folder=str(tmp_path), environment={"HF_HOME": "/models"}))
    assert (Path.cwd(), os.environ["HF_HOME"]) == (tmp_path, "/models")


def test_prefixes_take_turns_and_mistakes_are_one_line():
    assert prefixes_of(SimulationConfig(workers_by="ssh a; srun -N1")) == [["ssh", "a"], ["srun", "-N1"]]
    assert prefixes_of(SimulationConfig()) == []
    for wrong, said in (("ssh a;", "a prefix is empty"), ('ssh "a', "no closing quotation")):
        with pytest.raises(UserError, match=said):
            prefixes_of(SimulationConfig(workers_by=wrong))
    with pytest.raises(UserError, match="not docker"):
        prefixes_of(SimulationConfig(workers_by="ssh a", engine="docker"))
    with pytest.raises(UserError, match="without spaces"):
        remote_command(SimulationConfig(workers_python="/my python"))
    assert remote_command(SimulationConfig())[-4:] == [
        sys.executable,
        "-P",
        "-m",
        "swarm_node.extensions.simulation.worker",
    ]
