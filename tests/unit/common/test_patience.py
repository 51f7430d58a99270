"""The line for whoever waits at a terminal."""

import os
import pty
import select
from collections.abc import Iterator

import pytest

from swarm_node.common import patience
from swarm_node.common.patience import saying


@pytest.fixture
def terminal() -> Iterator[int]:
    """The other end of a terminal that standard error is."""
    ours, theirs = pty.openpty()
    before = os.dup(2)
    os.dup2(theirs, 2)
    yield ours
    os.dup2(before, 2)
    for descriptor in (ours, theirs, before):
        os.close(descriptor)


def test_who_waits_is_told(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SOON", 0.01)
    with saying("loading ..."):
        assert os.read(terminal, 99) == b"loading ...\r\n"


def test_who_need_not_wait_is_not(terminal: int) -> None:
    with saying("loading ..."):
        pass
    assert select.select([terminal], [], [], 0.0) == ([], [], [])


def test_a_pipe_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    monkeypatch.setattr(patience, "SOON", 0.0)
    before = os.dup(2)
    os.dup2(theirs, 2)
    with saying("loading ..."):
        pass
    os.dup2(before, 2)
    for descriptor in (theirs, before):
        os.close(descriptor)
    assert os.read(ours, 9) == b""
    os.close(ours)
