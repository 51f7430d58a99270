"""More wrong invocations, and those that anybody may type."""

import socket
from pathlib import Path

import pytest

from tests.mistakes import Mistake, Trials, faults, started


class TestList(Trials):
    name = "more"


class TestEveryday(Trials):
    """Words that look like flags, flags that look like words, addresses for names, and paths with
    spaces: in every command that takes them.
    """

    name = "everyday"


@pytest.mark.slow
def test_a_page_without_its_port_ends_with_75(tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "events.jsonl").touch()  # a node has run here
    with socket.create_server(("127.0.0.1", 0)) as taken:
        typed = f"swarm-node page ../h --listen 127.0.0.1:{taken.getsockname()[1]}"
        assert faults([Mistake(75, typed, "cannot listen on 127.0.0.1")], started, tmp_path) == []
