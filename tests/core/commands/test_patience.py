"""The line for whoever waits at a terminal."""

import os
import pty
import select
from collections.abc import Callable, Iterator
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


@pytest.mark.parametrize(
    ("opened", "soon", "told"),
    [(pty.openpty, 0.01, True), (pty.openpty, 60.0, False), (os.pipe, 0.0, False)],
    ids=["at a terminal", "not for long", "behind a pipe"],
)
def test_who_waits_at_a_terminal_is_told(
    monkeypatch: pytest.MonkeyPatch, opened: Callable[[], tuple[int, int]], soon: float, told: bool
) -> None:
    ours, theirs = opened()
    monkeypatch.setattr(cli, "SOON", soon)
    with standard_error(theirs), saying("loading ..."):
        select.select([ours], [], [], PATIENCE if told else 0.0)
    assert bool(select.select([ours], [], [], 0.0)[0]) == told
    assert not told or os.read(ours, 99) == b"loading ...\r\n"
    os.close(theirs)
    os.close(ours)
