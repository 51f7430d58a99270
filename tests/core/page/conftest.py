"""A page over its real server, on a free port of this machine."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from swarm_node.page.node import NodeWatch
from tests.commands import killed_in_the_end, started
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
        return self.ask("GET", path, headers={**given, **headers})

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        # verify=False saves loading all certificates of this machine. A page is slow, as it runs at
        # low priority.
        return httpx.request(method, self.base + path, timeout=PATIENCE, verify=False, **options)


@contextmanager
def serving(folder: Path, *options: str, program: tuple[str, ...] = ()) -> Iterator[Served]:
    """A page of a folder, which ends with the context."""
    words = ("page", folder, "--listen", "127.0.0.1:0", *options)
    with killed_in_the_end(started(*words, program=program)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2 if "--public" in options else 1)]
        yield Served(process, [line.split(": ", 1)[1].strip() for line in lines])


def read_all(watched: NodeWatch) -> None:
    """Reads the files of the node to their end, portion by portion."""
    while watched.read():
        pass


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts pages of folders; all end with the test."""
    with ExitStack() as stack:
        yield lambda *words, **more: stack.enter_context(serving(*words, **more))
