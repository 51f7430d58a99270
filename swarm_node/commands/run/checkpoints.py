"""What a node keeps in its home folder to go on from: checkpoints of the last rounds, and of the best validation."""

from pathlib import Path
from typing import Any

from swarm_node.commands.run.validation import REWARD, best_so_far
from swarm_node.common import renamed
from swarm_node.common.errors import UserError
from swarm_node.compute.policy import Policy
from swarm_node.compute.training import checkpoint
from swarm_node.compute.training.trainer import GrpoTrainer
from swarm_node.node import Node
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import CheckpointSaved, Notice, Validated, Warned
from swarm_node.telemetry.sinks import Telemetry

LAST, BEST = "checkpoints", "best"  # folders in the home


class Kept:
    """What an earlier run left. Raises UserError where that was of another model than the configured one."""

    def __init__(self, config: NodeConfig) -> None:
        self._home = config.home.expanduser()
        self.latest: Path | None = next(reversed(checkpoint.all_checkpoints(self._home / LAST)), None)
        self._state = _state_of(self.latest, config) if self.latest else None
        self.done = int(self._state["rounds"]) if self._state else 0
        self.waiting: list[str] = self._state["extra"].get("waiting", []) if self._state else []

    @property
    def best_reward(self) -> float | None:
        return best_so_far(self._home / BEST)

    def restore(self, node: Node, telemetry: Telemetry) -> None:
        """All of the node that is not weights: these came with its policy."""
        if self.latest is None or self._state is None:
            return
        checkpoint.restore_trainer(self.latest, _trainer(node))
        extra = self._state["extra"]
        node.pool.restore(renamed.present(renamed.POOL, extra["pool"]))
        node.defence.restore(renamed.present(renamed.ALARM, extra.get("defence", {})))
        telemetry.emit(Notice(f"resumed after {self.done} rounds from {self.latest}"))


class Keeper:
    """Writes what the next run finds. What cannot be written is a warning: training goes on."""

    def __init__(self, config: NodeConfig, node: Node, policy: Policy, telemetry: Telemetry) -> None:
        self._home, self._config = config.home.expanduser(), config.checkpoint
        self._node, self._policy, self._telemetry = node, policy, telemetry
        self._whose = {"peer_id": node.peer_id, "model": config.model.model_dump(mode="json")}

    def due(self, done: int) -> bool:
        """Whether a checkpoint is to be written after `done` rounds."""
        return done % self._config.every == 0

    def save(self, done: int, waiting: list[str]) -> None:
        """After `done` rounds. If it fails the older checkpoints are whole, and the next one may succeed."""
        extra = {"pool": self._node.pool.snapshot(), "defence": self._node.defence.snapshot(), "waiting": waiting}
        failed = f"no checkpoint after {done} rounds: {{}}; training goes on, make room in {self._home}"
        self._write(LAST, done, extra, self._config.keep, failed)

    def keep_best(self, measured: Validated) -> None:
        """In place of the best so far."""
        failed = "the best checkpoint so far was not kept: {}"
        self._write(BEST, measured.round, {REWARD: measured.reward}, 1, failed)

    def _write(self, folder: str, done: int, extra: dict[str, Any], keep: int, failed: str) -> None:
        trainer, whole = _trainer(self._node), {**self._whose, **extra}
        try:
            path = checkpoint.save(self._home / folder, done, self._policy, trainer, whole, keep)
        except OSError as error:
            self._telemetry.emit(Warned(failed.format(error)))
        else:
            self._telemetry.emit(CheckpointSaved(done, str(path)))


def _trainer(node: Node) -> GrpoTrainer:
    assert isinstance(node.trainer, GrpoTrainer)
    return node.trainer


def _state_of(latest: Path, config: NodeConfig) -> dict[str, Any]:
    state = checkpoint.read_state(latest)
    earlier, wanted = state["extra"]["model"], config.model.model_dump(mode="json")
    for key in ("name", "lora"):
        if earlier[key] != wanted[key]:
            raise UserError(
                f"home {config.home} holds checkpoints of model.{key} {earlier[key]!r}, not {wanted[key]!r}: "
                "choose another --home, or move its checkpoints away"
            )
    return state
