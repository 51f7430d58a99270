"""Asking a running node over a private socket: in its home, or elsewhere if the path of the home is
too long.
"""

import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from swarm_node.common.errors import UserError
from swarm_node.network.process import control
from tests.waiting import PATIENCE


class Answering:
    """A node that answers, in a thread of its own."""

    def __init__(self, home: Path, answer: dict[str, object]) -> None:
        self._home, self._answer = home, answer
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        async def reply() -> dict[str, object]:
            return self._answer

        async def serve() -> None:
            async with await control.serve(self._home, reply) as server:
                self._ready.set()
                await server.serve_forever()

        with (
            asyncio.Runner(loop_factory=lambda: self._loop) as runner,
            suppress(asyncio.CancelledError),
        ):
            runner.run(serve())

    def __enter__(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(
            lambda: [task.cancel() for task in asyncio.all_tasks(self._loop)]
        )
        self._thread.join(PATIENCE)


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def asked(home: Path) -> object:
    """The answer of a node without `used`, the CPU time and memory that the node takes."""
    answer = control.ask(home)
    assert answer is not None and answer.pop("used")["memory_bytes"] > 1e6
    return answer


def test_a_node_answers_its_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As while another thread imports torch
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    with Answering(tmp_path, {"round": 3, "text": "ü\x1b"}):
        assert asked(tmp_path) == {"round": 3, "text": "ü\x1b"}
        assert control.socket_path(tmp_path).stat().st_mode & 0o777 == 0o600


def test_a_long_path_is_asked_elsewhere(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short))
    home = tmp_path / ("long" * 30)
    home.mkdir()
    with Answering(home, {"here": True}):
        assert asked(home) == {"here": True}
        assert control.ask(tmp_path) is None
    assert control.socket_path(home).parent.stat().st_mode & 0o777 == 0o700
    control.socket_path(home).parent.chmod(0o755)
    with pytest.raises(UserError, match="shorter --home"):
        control.socket_path(home)


def test_where_no_node_runs_nobody_answers(tmp_path: Path) -> None:
    assert control.ask(tmp_path) is None
    with Answering(tmp_path, {}):
        pass
    assert control.ask(tmp_path) is None


def test_a_socket_left_by_a_killed_node_is_taken_over(tmp_path: Path) -> None:
    for number in range(2):
        with Answering(tmp_path, {"number": number}):
            assert asked(tmp_path) == {"number": number}
