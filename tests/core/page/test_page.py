"""A node and its page: no trouble of the page changes training."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

import httpx
import psutil
import pytest

from lab.studies.guests import reports
from swarm_node.settings import BootstrapConfig, NodeConfig, Section, section_of
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.page import LISTEN, ObservedConfig
from tests.commands import ended, killed_in_the_end, page_of, read_until, started
from tests.waiting import PATIENCE, until

SMALL = (
    "--round.questions",
    2,
    "--environment.tasks",
    "gcd/tiny",
    "--threads",
    1,
    "--network.no-enabled",
)


def test_the_flag_alone_has_the_usual_address() -> None:
    def listen(kind: type[Section], *words: str) -> str:
        return section_of(from_command_line(kind, words, "swarm-node"), ObservedConfig).listen

    for kind in (NodeConfig, BootstrapConfig):
        assert (
            listen(kind) == "" and listen(kind, "--page") == listen(kind, "--page.listen") == LISTEN
        )
        assert listen(kind, "--page", "--swarm", "ours") == LISTEN
        assert listen(kind, "--page", "[::1]:80", "--swarm", "ours") == "[::1]:80"
        assert listen(kind, "--page=0.0.0.0:8080") == "0.0.0.0:8080"


@pytest.mark.slow
def test_a_page_ends_when_whoever_started_it_has_gone(tmp_path: Path) -> None:
    words = ("page", tmp_path, "--listen", "127.0.0.1:0", "--with-parent")
    with killed_in_the_end(started(*words, stdin=subprocess.PIPE)) as process:
        read_until(process, "page: http://127.0.0.1:")
        assert psutil.Process(process.pid).nice() >= 10 and process.stdin is not None
        process.stdin.close()  # as the system does when a process is killed
        assert process.wait(PATIENCE) == 0


def figures(home: Path) -> dict[int, tuple[float, ...]]:
    """The reward, generated tokens and loss of each round in the events of a node."""
    found = reports(home)
    return {
        each["round"]: (each["reward"], each["generated_tokens"], each["step"]["loss"])
        for each in found
    }


@pytest.mark.slow
def test_training_does_not_notice_what_befalls_its_page(tmp_path: Path) -> None:
    """Viewers that never read, events cut within a line, a full disk and a killed page, one after
    the other beside a node that trains. Then a node of the same identity without a page does the
    same rounds: all figures are equal.
    """
    home, alone = tmp_path / "home", tmp_path / "alone"
    ended("home", "id", "--home", home)
    shutil.copytree(home, alone)
    process, said = started("run", "--home", home, "--page", "127.0.0.1:0", *SMALL), list[str]()
    events = home / "events.jsonl"
    try:
        address = page_of(process)
        token = {"authorization": f"Bearer {address.fragment.removeprefix('token=')}"}
        # Else its pipe would fill
        threading.Thread(target=lambda: said.extend(process.stdout), daemon=True).start()

        def shown() -> int:
            url = f"http://127.0.0.1:{address.port}/api/state"
            state = httpx.get(url, headers=token, timeout=PATIENCE, verify=False).json()
            return -1 if state["loading"] else max(state["whole"]["rounds"], default=-1)

        def catches_up(what: str) -> None:
            here = max(figures(home))
            until(lambda: shown() >= here, what=what)

        def goes_on(what: str) -> None:
            here = max(figures(home), default=0)
            until(lambda: max(figures(home), default=0) > here + 3, what=f"rounds after {what}")

        until(lambda: shown() > 3, 600, "rounds", 0.5)
        request = (
            "GET /api/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: "
            f"{token['authorization']}\r\n\r\n"
        )
        deaf = [socket.create_connection(("127.0.0.1", address.port)) for _ in range(20)]
        for each in deaf:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            each.sendall(request.encode())
        goes_on("viewers that never read")
        catches_up("a page beside deaf viewers")
        os.truncate(events, events.stat().st_size - 100)
        goes_on("a cut line")
        catches_up("a page that reads again")
        node = psutil.Process(process.pid)
        full = events.stat().st_size + 2000
        # No file grows beyond this, as on a full disk
        node.rlimit(psutil.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
        before = node.cpu_times().user
        until(lambda: node.cpu_times().user > before + 1.0, what="training on a full disk")
        assert events.stat().st_size <= full
        node.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        goes_on("a full disk")
        (shown_by,) = [each for each in node.children() if "page" in each.cmdline()]
        shown_by.kill()
        goes_on("a killed page")
        ended_so = "the page has ended, exit code -9; the node continues"
        until(lambda: any(ended_so in text for text in said), what="a line about the page")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    sample = json.loads((home / "rollouts.jsonl").read_text().splitlines()[0])
    assert sample["task"] == "gcd/tiny" and sample["completions"]
    disturbed = figures(home)
    assert ended("run", "--home", alone, "--max-rounds", max(disturbed) + 1, *SMALL).returncode == 0
    undisturbed = figures(alone)
    assert len(disturbed) < max(disturbed) + 1, "the full disk took some lines"
    assert disturbed == {number: undisturbed[number] for number in disturbed}
