"""When a running node uploads its model, and what it says of it."""

from pathlib import Path
from threading import Event as Gate

import pytest

from swarm_node.common.errors import UserError
from swarm_node.extensions.hub.pushing import Pushing, pushing
from swarm_node.settings import NodeConfig, with_sections
from swarm_node.telemetry.events import (
    CheckpointSaved,
    CheckpointWanted,
    Event,
    Notice,
    RoundDone,
    RunFinished,
    Telemetry,
    Warned,
)
from tests.core.telemetry.conftest import round_report  # noqa: F401  a fixture
from tests.waiting import PATIENCE

ALL = {"push": {"repo": "me/model", "every": 2}}


class Node:
    """The events that a node emits to an observer, and what that says back."""

    def __init__(self, home: Path) -> None:
        self.said: list[Event] = []
        self.telemetry = Telemetry()
        made = pushing(home, with_sections(NodeConfig).model_validate(ALL), self.telemetry)
        assert isinstance(made, Pushing)
        self.telemetry.add(made)
        self.telemetry.add(self)
        self.home = home

    def take(self, event: Event) -> None:
        if isinstance(event, CheckpointWanted | Notice | Warned):
            self.said.append(event)

    def close(self) -> None: ...

    def saves(self, done: int, folder: str = "checkpoints") -> None:
        self.telemetry.emit(CheckpointSaved(done, str(self.home / folder / str(done))))


def test_it_wants_a_checkpoint_every_so_many_rounds_and_uploads_that_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    round_report,  # noqa: F811
) -> None:
    pushed: list[str] = []
    gate = Gate()

    def push(home: Path, checkpoint: Path, *options: object) -> str:
        assert gate.wait(PATIENCE)
        pushed.append(checkpoint.name)
        if len(pushed) > 1:
            raise UserError("the hub is away\x1b[31m")
        return "https://hub/me/model"

    monkeypatch.setattr("swarm_node.extensions.hub.push.push", push)
    node = Node(tmp_path)
    node.telemetry.emit(RoundDone(round_report(0)))
    node.saves(1)  # not due
    assert node.said == []
    node.telemetry.emit(RoundDone(round_report(1)))
    assert node.said == [CheckpointWanted()]
    node.saves(2, "best")
    node.saves(2)
    node.telemetry.emit(RoundDone(round_report(3)))
    node.saves(4)  # while the first upload goes on
    gate.set()
    node.telemetry.emit(RunFinished("done"))
    assert node.said == [CheckpointWanted(), CheckpointWanted(), Notice("pushed to https://hub/me/model")]
    node.telemetry.emit(RoundDone(round_report(5)))
    node.saves(6)
    node.telemetry.emit(RunFinished("done"))
    assert node.said[4:] == [Warned("not pushed: the hub is away?[31m; training goes on")] and pushed == ["2", "6"]
    node.saves(6)  # once more, as a node does when it stops
    node.telemetry.close()
    assert pushed == ["2", "6"]


def test_without_rounds_there_is_none_and_without_a_repository_it_is_a_mistake(tmp_path: Path) -> None:
    kind = with_sections(NodeConfig)
    assert pushing(tmp_path, kind.model_validate({"push": {"repo": "me/model"}}), Telemetry()) is None
    with pytest.raises(UserError, match=r"push.every needs a repository"):
        pushing(tmp_path, kind.model_validate({"push": {"every": 1}}), Telemetry())
