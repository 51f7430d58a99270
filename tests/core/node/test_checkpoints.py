"""When a node saves, and what it goes on with."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarm_node.common.errors import UserError
from swarm_node.node.checkpoints import CheckpointWriter, Kept
from swarm_node.node.evaluation import Measured
from swarm_node.node.learner import Learner
from swarm_node.policy.soundness import Damaged
from swarm_node.rollouts.curriculum import CurriculumState
from swarm_node.rollouts.groups import Group, StepReport
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import Telemetry
from swarm_node.training import checkpoint
from tests.models import make_node, tiny_policy


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def keeper(home: Path, clock: Clock, **options: Any) -> CheckpointWriter:
    config = NodeConfig(home=home, checkpoint=options)
    policy = tiny_policy()
    node = make_node(policy=policy)
    return CheckpointWriter(config, node, policy, Telemetry([]), Measured(), clock)


def test_the_first_checkpoint_is_early_and_others_come_after_ten_minutes(tmp_path: Path) -> None:
    clock = Clock()
    kept = keeper(tmp_path, clock)
    assert kept.due(1), "a failure of the machine would cost all rounds so far"
    assert kept.save(1, []) == ""
    clock.now += 599.0
    assert not kept.due(2) and not kept.due(20)
    clock.now += 1.0
    assert kept.due(21)


def test_rounds_can_be_counted_besides(tmp_path: Path) -> None:
    clock = Clock()
    kept = keeper(tmp_path, clock, every=3, minutes=60.0)
    assert kept.save(1, []) == ""
    assert [done for done in range(2, 10) if kept.due(done)] == [3, 6, 9]


def test_a_failed_write_is_tried_again_after_the_same_time(tmp_path: Path) -> None:
    clock = Clock()
    kept = keeper(tmp_path, clock)
    (tmp_path / "checkpoints").write_text("no folder")
    assert kept.save(1, []) != ""
    assert not kept.due(2)
    clock.now += 600.0
    assert kept.due(3)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one checkpoint, after two rounds."""
    assert keeper(tmp_path, Clock()).save(2, []) == ""
    return tmp_path


def change(home: Path, **fields: Any) -> None:
    file = home / "checkpoints" / "00000002" / checkpoint.STATE
    state = json.loads(file.read_text())
    extra = {**state["extra"], **fields.pop("extra", {})}
    file.write_text(json.dumps({**state, **fields, "extra": extra}))


def kept_in(home: Path) -> Kept:
    name = tiny_policy().name
    model = json.loads((home / "checkpoints" / "00000002" / checkpoint.STATE).read_text())
    wanted = {**model["extra"]["model"], "name": model["extra"]["model"]["name"] or name}
    return Kept(NodeConfig(home=home, model=wanted))


def test_what_an_older_version_wrote_in_another_way_is_left_out_and_the_weights_go_on(
    home: Path,
) -> None:
    change(home, format=1, extra={"waiting": ["{}"], "measured": {"before": 3}})
    kept = kept_in(home)
    assert kept.done == 2 and kept.waiting == []
    assert len(kept.warnings) == 2
    assert all("made by an older version of swarm-node" in text for text in kept.warnings)


def test_the_same_in_a_checkpoint_of_this_version_is_damaged(home: Path) -> None:
    change(home, extra={"waiting": ["{}"]})
    with pytest.raises(UserError, match="is damaged"):
        kept_in(home)


@pytest.mark.parametrize(
    "curriculum", [{"version": 2}, {"tasks": {"a/1": {"right": 9.0}}}, "practise this", [1]]
)
def test_so_is_one_whose_tasks_no_node_writes(home: Path, curriculum: object) -> None:
    change(home, extra={"curriculum": curriculum})
    with pytest.raises(UserError, match="is damaged"):
        kept_in(home)


def test_a_home_of_a_version_that_chose_no_tasks_begins_to_choose(home: Path) -> None:
    file = home / "checkpoints" / "00000002" / checkpoint.STATE
    state = json.loads(file.read_text())
    del state["extra"]["curriculum"]
    file.write_text(json.dumps({**state, "format": 2}))
    kept = kept_in(home)
    assert kept.done == 2 and not kept.warnings and kept.curriculum == CurriculumState()


def test_a_checkpoint_of_a_newer_version_is_not_called_damaged(home: Path) -> None:
    change(home, format=checkpoint.FORMAT + 1, made_by="9.9.0\x1b[2J")
    with pytest.raises(
        UserError, match=r"made by another version .*9\.9\.0.*upgrade swarm-node"
    ) as raised:
        kept_in(home)
    assert "\x1b" not in str(raised.value) and not isinstance(raised.value, Damaged)


def test_a_checkpoint_says_which_version_made_it(home: Path) -> None:
    state = checkpoint.read_state(home / "checkpoints" / "00000002")
    assert state["made_by"] == checkpoint.made_by() and not checkpoint.is_older(state)


# What a checkpoint holds besides tensors, as names and types. Whoever changes this raises FORMAT,
# so that homes of the version before are read as such and are not called damaged.
SHAPE = {
    "format": 3,
    "fields": {
        "extra": {
            "curriculum": {"rounds": "int", "tasks": {}, "version": "int"},  # may lack any
            "defence": {},
            "measured": {"before": {}, "now": {}, "right": {}, "wrong": {}},  # may lack any
            "model": "any",
            "peer_id": "str",
            "pool": {"answered": [], "spent": [], "waiting": []},  # may lack "answered"
            "waiting": [],
        },
        "format": "int",
        "made_by": "str",
        "optimizer_steps": "int",
        "rounds": "int",
        "version": "int",
    },
}


def shape(value: Any, key: str = "") -> Any:
    if key == "model":
        return "any"  # options, which have defaults where a file lacks them
    if isinstance(value, dict):
        return {name: shape(inner, name) for name, inner in value.items()}
    return [] if isinstance(value, list) else type(value).__name__


def test_a_change_of_what_a_checkpoint_holds_raises_its_format(home: Path) -> None:
    state = checkpoint.read_state(home / "checkpoints" / "00000002")
    assert {"format": checkpoint.FORMAT, "fields": shape(state)} == SHAPE


class Bandit:
    """A trainer with an optimiser of its own, whose whole state is a number."""

    rows, stepping = "none", False

    def __init__(self, number: int, steps: int) -> None:
        self.number, self.steps, self.version = number, steps, 0

    def update(self, groups: Sequence[Group]) -> StepReport:
        return StepReport()

    def settle(self) -> None:
        pass

    def is_finite(self) -> bool:
        return True

    def save(self, file: Path) -> None:
        file.write_text(str(self.number))

    def restore(self, file: Path | None, steps: int, version: int) -> None:
        self.number = int(file.read_text()) if file else 0
        self.steps, self.version = steps, version


def test_every_trainer_of_the_interface_is_kept_in_checkpoints_and_goes_on(tmp_path: Path) -> None:
    config, policy = NodeConfig(home=tmp_path), tiny_policy()
    policy.version = 5
    node = replace(make_node(policy=policy), trainer=Bandit(42, steps=7))
    keeper = CheckpointWriter(config, node, policy, Telemetry([]), Measured(), Clock())
    assert keeper.save(2, []) == ""
    fresh = Bandit(0, steps=0)
    again = Learner(config, None, policy, replace(make_node(policy=policy), trainer=fresh))
    assert Kept(config).build(lambda resume: again) is again
    assert (fresh.number, fresh.steps, fresh.version) == (42, 7, 5)
