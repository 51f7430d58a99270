"""Whole nodes as a user starts them: two learn from each other, and a mistake of user or machine
costs a line.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.studies.guests import address, reports
from swarm_node.home.folder import load_identity
from swarm_node.network.process import control
from tests.commands import ENDS_SECONDS, command, ended, started
from tests.network.members import black_hole
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.network
# To start and to get groups of each other: half a minute where nothing else runs
LEARNS_SECONDS = 400.0

TINY = """\
threads = 1
[round]
questions = 9
local_groups = 2
external_groups = 2
[environment]
tasks = ["gcd/easy", "lcm/easy", "count_bits/easy"]
[network]
host = "127.0.0.1"
exchange_seconds = 2
mdns = false
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("config") / "tiny.toml"
    file.write_text(TINY)
    return file


@contextmanager
def running(home: Path, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """A running node, which gets SIGTERM at the end."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "output.log").open("wb") as output:
        process = started(*arguments, "--home", home, loaded=True, stdout=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def learned(home: Path) -> int:
    return sum(report["external_informative"] for report in reports(home))


def in_the_end(*arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs a command again until it finds nothing wrong. `status` and `doctor` give a network only
    seconds to answer, which a busy machine may exceed.
    """
    began = time.monotonic()
    while (done := ended(*arguments, **options)).returncode and time.monotonic() - began < PATIENCE:
        pass
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def healthy(home: Path) -> dict[str, Any]:
    """What `status --json` says of a healthy node."""
    found: dict[str, Any] = json.loads(in_the_end("status", "--home", home, "--json").stdout)
    return found


def test_nodes_on_either_library_train_on_each_other_s_groups_and_every_command_replies(
    tmp_path: Path, tiny: Path
) -> None:
    """A bootstrap node and a node on py-libp2p, a node on hivemind's p2pd, and `doctor` for a node
    that is to join.
    """
    entry, a, b = homes = tmp_path / "entry", tmp_path / "a", tmp_path / "b"
    py_libp2p = ("--network.backend", "libp2p")
    # Unique: a bootstrap node finds other nodes by mDNS
    swarm = ("--swarm", tmp_path.name.replace("_", "-"))
    with running(
        entry, "bootstrap", "--backend", "libp2p", "--host", "127.0.0.1", "--port", 0, *swarm
    ):
        known = address(entry)
        with (
            running(a, "run", tiny, "--peers", known, *py_libp2p, *swarm) as first,
            black_hole() as hole,
            running(b, "run", tiny, "--peers", hole, "--peers", known, *swarm),
        ):
            doctor = in_the_end(
                "doctor", tiny, "--home", tmp_path / "new", "--peers", known, *py_libp2p, *swarm
            )
            assert f"bootstrap node: {known}: answers" in doctor.stdout
            until(lambda: learned(a) and learned(b), LEARNS_SECONDS, "learning from each other")
            ids = {home: load_identity(home).peer_id for home in homes}
            for home, library in zip(homes, ("libp2p", "libp2p", "hivemind"), strict=True):
                answer = healthy(home)
                assert answer["healthy"] and answer["network"]["backend"] == library
                assert answer["network"]["connected"] > 0
                assert home == entry or answer["training"]["received"] > 0
                peers = json.loads(ended("peers", "--home", home, "--json").stdout)
                assert {peer["peer"] for peer in peers} >= set(ids.values()) - {
                    ids[home],
                    ids[entry],
                }
            assert ids[a][:8] in ended("peers", "--home", b).stdout
            first.terminate()
            assert first.wait(PATIENCE) == 0
            count = len(reports(b))
            until(lambda: len(reports(b)) > count + 3, what="training on alone")
            assert ended("status", "--home", a).returncode == 1
    assert "network: loopback only" in (b / "output.log").read_text()
    assert list((a / "checkpoints").iterdir())


def test_sigterm_in_a_long_round_does_not_wait_for_its_end(tmp_path: Path, tiny: Path) -> None:
    long = (
        "--round.questions",
        256,
        "--generation.num-generations",
        64,
        "--generation.max-completion-length",
        200,
    )
    with running(tmp_path, "run", tiny, *long, "--environment.tasks", "gcd/easy") as process:
        until(lambda: "node 12D3" in (tmp_path / "output.log").read_text(), what="the first round")
        until(lambda: control.ask(tmp_path), what="an answer")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert reports(tmp_path) == []


@pytest.mark.skipif(
    shutil.which("unshare") is None or os.getuid() != 0,
    reason="needs a network namespace of its own",
)
def test_doctor_without_any_route_says_what_hinders_the_exchange(tmp_path: Path) -> None:
    entry = "/ip4/10.1.2.3/tcp/31330/p2p/12D3KooWA4Xop1JaT3MHxwYMkCepYsv4iPVopMXwCz5iHYdBfeSB"
    script = " ".join(
        command("doctor", "--home", tmp_path, "--peers", entry, "--environment.tasks", "gcd/easy")
    )
    result = subprocess.run(  # a namespace in which there is nothing but its own loopback interface
        ["unshare", "-n", "sh", "-c", f"ip link set lo up 2>/dev/null; {script}"],
        capture_output=True,
        text=True,
        timeout=ENDS_SECONDS,
        check=False,
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert (
        "unreachable" in result.stdout
        and "alone  peers: none of those known answers" in result.stdout
    )
    assert (
        result.stdout.strip().splitlines()[-1].startswith("this node can train, but cannot share")
    )
