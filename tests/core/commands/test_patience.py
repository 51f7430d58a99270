"""The line for whoever waits at a terminal."""

import os
import pty
import select
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from swarm_node.commands import cli
from swarm_node.commands.cli import saying
from tests.waiting import PATIENCE


@contextmanager
def standard_error(descriptor: int) -> Iterator[None]:
    before = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def test_who_waits_at_a_terminal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setattr(cli, "SOON", 0.01)
    with standard_error(theirs), saying("loading ..."):
        assert select.select([ours], [], [], PATIENCE)[0]
        assert os.read(ours, 99) == b"loading ...\r\n"
    os.close(theirs)
    os.close(ours)


def test_who_need_not_wait_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setattr(cli, "SOON", 60.0)
    with standard_error(theirs), saying("loading ..."):
        pass
    assert select.select([ours], [], [], 0.0) == ([], [], [])
    os.close(theirs)
    os.close(ours)


def test_a_pipe_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "SOON", 0.0)
    ours, theirs = os.pipe()
    with standard_error(theirs), saying("loading ..."):
        pass
    os.close(theirs)
    assert os.read(ours, 9) == b""
    os.close(ours)
