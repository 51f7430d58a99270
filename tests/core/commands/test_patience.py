"""The line that a user at a terminal sees while a command takes long."""

from queue import Queue

import pytest

from swarm_node.commands import cli
from swarm_node.commands.cli import saying
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    ("terminal", "soon", "told"), [(True, 0.01, True), (True, 60.0, False), (False, 0.0, False)]
)
def test_who_waits_at_a_terminal_is_told(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, soon: float, told: bool
) -> None:
    said: Queue[tuple[int, bytes]] = Queue()
    monkeypatch.setattr(cli, "SOON", soon)
    monkeypatch.setattr(cli.os, "isatty", lambda descriptor: terminal)
    monkeypatch.setattr(cli.os, "write", lambda *written: said.put(written))
    with saying("loading ..."):
        assert not told or said.get(timeout=PATIENCE) == (2, b"loading ...\n")
    assert said.empty()
