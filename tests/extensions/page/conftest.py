"""A page over its real server, on a free port of this machine."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.commands import started
from tests.waiting import PATIENCE


class Served:
    """A running `swarm-node page`, and its addresses as it printed them."""

    def __init__(self, process: "subprocess.Popen[str]", addresses: list[str]) -> None:
        self.process, self.addresses = process, addresses
        url = httpx.URL(addresses[-1])
        self.base = f"http://{url.host}:{url.port}"
        self.host, self.port = url.host, url.port or 0
        self.token = url.fragment.removeprefix("token=")

    def get(self, path: str, token: bool = True, **headers: str) -> httpx.Response:
        given = {"authorization": f"Bearer {self.token}"} if token else {}
        # A page is nice to all other work.
        return httpx.get(self.base + path, headers={**given, **headers}, timeout=PATIENCE)


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts a page of a folder; all end with the test."""
    running: list[subprocess.Popen[str]] = []

    def start(folder: Path, *options: str, program: tuple[str, ...] = ()) -> Served:
        words = ("page", folder, "--listen", "127.0.0.1:0", *options)
        process = started(*words, program=program) if program else started(*words)
        running.append(process)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2 if "--public" in options else 1)]
        return Served(process, [line.split(": ", 1)[1].strip() for line in lines])

    yield start
    for process in running:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
