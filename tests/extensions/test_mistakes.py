"""The wrong invocations of tests/core/commands/test_mistakes.py that need extensions."""

import socket
from pathlib import Path

import pytest

from tests.mistakes import Mistake, called, faults, listed, started

EXTENSIONS = listed("extensions")
INSIDE = [mistake for mistake in EXTENSIONS if mistake.inside]


def test_every_fifth_mistake_of_the_list_is_answered_in_one_line(tmp_path: Path) -> None:
    assert faults(INSIDE[::5], called, tmp_path) == []


@pytest.mark.slow
def test_every_mistake_of_the_list_is_answered_in_one_line(tmp_path: Path) -> None:
    assert faults(INSIDE, called, tmp_path) == []


@pytest.mark.long
def test_every_mistake_is_answered_in_one_line_as_a_user_types_it(tmp_path: Path) -> None:
    assert faults(EXTENSIONS, started, tmp_path) == []


@pytest.mark.slow
def test_a_page_without_its_port_ends_with_75(tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "events.jsonl").touch()  # a node has run here
    with socket.create_server(("127.0.0.1", 0)) as taken:
        typed = f"swarm-node page ../h --listen 127.0.0.1:{taken.getsockname()[1]}"
        assert faults([Mistake(75, typed, "cannot listen on 127.0.0.1")], started, tmp_path) == []
