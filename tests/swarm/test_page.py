"""A node and its page: whatever becomes of the page, training does not notice."""

import json
import os
import signal
from pathlib import Path

import httpx
import psutil
import pytest

from swarm_node.commands.page.beside import completed
from swarm_node.settings.page import LISTEN
from tests.commands import ended, read_until, started
from tests.waiting import until

SMALL = ("--round.questions", 2, "--environment.tasks", "gcd/tiny", "--threads", 1, "--network.no-enabled")


def test_the_flag_alone_has_the_usual_address() -> None:
    usual = f"--page={LISTEN}"
    assert completed(["--page"]) == [usual]
    assert completed(["a.toml", "--page", "--seed", "1"]) == ["a.toml", usual, "--seed", "1"]
    assert completed(["--page", "0.0.0.0:8080", "--seed", "1"]) == ["--page", "0.0.0.0:8080", "--seed", "1"]


@pytest.mark.slow
def test_a_page_that_is_killed_costs_the_node_a_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = started("run", "--home", home, "--page", "127.0.0.1:0", *SMALL)
    try:
        read_until(process, "page: http://127.0.0.1:")
        token = {"authorization": f"Bearer {(home / 'page.token').read_text().strip()}"}
        (page,) = [each for each in psutil.Process(process.pid).children() if "page" in each.cmdline()]
        assert page.nice() >= 10
        read_until(process, "round 1 ")
        (port,) = [each.laddr.port for each in page.net_connections() if each.status == psutil.CONN_LISTEN]
        until(lambda: httpx.get(f"http://127.0.0.1:{port}/api/state", headers=token).json()["whole"]["rounds"])
        os.kill(page.pid, signal.SIGKILL)
        read_until(process, "the page has ended, exit code -9; the node goes on")
        read_until(process, "round ")
        read_until(process, "round ")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_page_ends_with_its_node_and_samples_are_there_unless_turned_off(tmp_path: Path) -> None:
    home, silent = tmp_path / "home", tmp_path / "silent"
    process = started("run", "--home", home, "--page", "127.0.0.1:0", *SMALL)
    try:
        read_until(process, "round 0 ")
        (page,) = [each for each in psutil.Process(process.pid).children() if "page" in each.cmdline()]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    until(lambda: not page.is_running() or page.status() == psutil.STATUS_ZOMBIE, what="the end of the page")
    sample = json.loads((home / "rollouts.jsonl").read_text().splitlines()[0])
    assert sample["task"] == "gcd/tiny" and sample["completions"]
    origins = json.loads((home / "manifest.json").read_text())["origins"]
    assert origins["environment.tasks"] == "flag"
    ended("run", "--home", silent, "--max-rounds", 1, "--samples.no-enabled", *SMALL)
    assert (silent / "events.jsonl").exists() and not (silent / "rollouts.jsonl").exists()


@pytest.mark.slow
def test_a_mistake_in_the_address_is_one_line(tmp_path: Path) -> None:
    done = ended("run", "--home", tmp_path / "home", "--page", "here", *SMALL)
    assert done.returncode == 2 and "must be HOST:PORT" in done.stderr and len(done.stderr.splitlines()) == 1
