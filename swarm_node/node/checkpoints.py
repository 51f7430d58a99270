"""What a node keeps in its home folder to go on from: checkpoints of the last rounds, and of the
best validation.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from swarm_node.common.errors import Diverged, UserError, first_line
from swarm_node.node.evaluation import MEASURED, REWARD, Measured, best_so_far
from swarm_node.node.learner import Learner
from swarm_node.node.practice import Practice
from swarm_node.node.round import Node
from swarm_node.node.waiting import read_waiting
from swarm_node.policy import named
from swarm_node.policy.device import OutOfMemory, attempt
from swarm_node.policy.policy import Policy
from swarm_node.policy.soundness import Damaged
from swarm_node.rollouts.curriculum import CurriculumState
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import CheckpointSaved, Notice, Telemetry, Validated, Warned
from swarm_node.training import checkpoint

LAST, BEST = "checkpoints", "best"  # folders in the home
CURRICULUM = "curriculum"  # which tasks are practised, in a checkpoint's extra state
DIGEST = "model_digest"  # of a model in a folder, in a checkpoint's extra state
COMMIT = re.compile("[0-9a-f]{40}")
SPARE = 1.1  # times the size of the last checkpoint must be free for the next
ADAM_BYTES = 8  # of AdamW's state, for each trained weight
KEPT = 2  # checkpoints on disk
# What reading a state of another shape raises
MALFORMED = (KeyError, TypeError, ValueError, AttributeError)
STATES = 1  # newest checkpoints that keep AdamW's state, which is twice as large as the weights


class Kept:
    """What an earlier run left. Raises UserError where its checkpoints are of another model than
    the configured one.
    """

    def __init__(self, config: NodeConfig) -> None:
        self._config, self._home = config, config.home.expanduser()
        self.warnings: list[str] = []
        self.latest: Path | None = None
        self.done = 0
        self.waiting: list[str] = []
        self.measured = Measured()  # by validation
        self.curriculum = CurriculumState()
        self._extra: dict[str, Any] = {}
        self._older = False  # whether the checkpoint is of a version with another format
        self._look()

    @property
    def best_reward(self) -> float | None:
        return best_so_far(self._home / BEST)

    def build(self, make: Callable[[Path | None], Learner]) -> Learner:
        """The node with its model, from the newest checkpoint that is whole, or new where there is
        none. UserError where a checkpoint is damaged, and there is none before it.
        """
        while True:
            try:
                learner = make(self.latest)
                self._restore(learner.node)
                return learner
            except Damaged as error:
                assert self.latest is not None, error
                self._fall_back(self.latest, error)
                self._look()

    def pinned(self) -> NodeConfig:
        """The configuration with the commit of the base model that the checkpoints began from:
        adapters fit no other. UserError where the configuration asks for another commit.
        """
        config, earlier = self._config, str(self._extra.get("model", {}).get("revision", ""))
        wanted = config.model.revision
        if COMMIT.fullmatch(wanted) and COMMIT.fullmatch(earlier) and wanted != earlier:
            raise self._other("revision", earlier, wanted)
        return config.model_copy(
            update={"model": config.model.model_copy(update={"revision": earlier or wanted})}
        )

    def tell(self, telemetry: Telemetry) -> None:
        """Emits the warnings, and which checkpoint the run resumes from."""
        for text in self.warnings:
            telemetry.emit(Warned(text))
        if self.latest is not None:
            fresh = (
                ""
                if checkpoint.has_state(self.latest)
                else ", without the optimiser's state, which was not kept"
            )
            telemetry.emit(Notice(f"resumed after {self.done} rounds from {self.latest}{fresh}"))

    def _look(self) -> None:
        """Takes the newest checkpoint whose state can be read."""
        while (
            newest := next(reversed(checkpoint.all_checkpoints(self._home / LAST)), None)
        ) is not None:
            try:
                state = checkpoint.read_state(newest)
                self._older = checkpoint.is_older(state)
                self._check_model(state["extra"])
                with self._left_out("rounds that were generated and not trained on"):
                    self.waiting = waiting_of(state["extra"])
                with self._left_out("what validation measured"):
                    self.measured = Measured.model_validate(state["extra"].get(MEASURED, {}))
                with self._left_out("which tasks were practised"):
                    kept = state["extra"].get(CURRICULUM, {})
                    self.curriculum = CurriculumState.model_validate(kept)
            except (Damaged, *MALFORMED) as error:
                self._fall_back(newest, error)
            else:
                self.latest, self.done, self._extra = newest, state["rounds"], state["extra"]
                return
        self.latest, self.done, self.waiting, self.measured = None, 0, [], Measured()
        self.curriculum = CurriculumState()

    def _restore(self, node: Node) -> None:
        """Restores the optimiser, the inbox and the defence of a node. Its weights came with its
        policy.
        """
        if self.latest is None:
            return
        checkpoint.restore_trainer(self.latest, node.trainer)
        try:
            with self._left_out("groups of peers that waited"):
                node.inbox.restore(self._extra["pool"])
            with self._left_out("what the defence remembered"):
                node.defence.restore(self._extra.get("defence", {}))
        except MALFORMED as error:
            raise Damaged(f"state.json: {_short(error)}") from error

    @contextmanager
    def _left_out(self, what: str) -> Iterator[None]:
        """A part of a checkpoint that the node can do without. What an older version wrote in
        another way is left out with a warning; in a checkpoint of this version it is damaged.
        """
        try:
            yield
        except MALFORMED:
            if not self._older:
                raise
            self.warnings.append(
                f"the checkpoint was made by an older version of swarm-node: {what} cannot be read "
                "and are skipped; weights and optimiser are taken over"
            )

    def _fall_back(self, damaged: Path, error: Exception) -> None:
        """Falls back to the checkpoint before, and renames the damaged one. UserError where there
        is none before.
        """
        whole = checkpoint.all_checkpoints(self._home / LAST)
        if whole[0] == damaged:
            raise UserError(
                f"checkpoint {damaged} is damaged ({_short(error)}), and there is none before it: "
                "move it away to begin again, or take it from a backup"
            ) from error
        try:
            aside = checkpoint.set_aside(damaged)
        except OSError as failed:
            raise UserError(
                f"checkpoint {damaged} is damaged ({_short(error)}): make its folder writable, or "
                "move it away"
            ) from failed
        self.warnings.append(
            f"checkpoint {damaged} is damaged ({_short(error)}): it is {aside.name} now"
        )

    def _check_model(self, extra: dict[str, Any]) -> None:
        earlier, wanted = extra["model"], self._config.model.model_dump(mode="json")
        if not _same_model(earlier["name"], wanted["name"], extra.get(DIGEST, "")):
            raise self._other("name", earlier["name"], wanted["name"])
        if earlier["lora_rank"] != wanted["lora_rank"]:
            raise self._other("lora_rank", earlier["lora_rank"], wanted["lora_rank"])

    def _other(self, key: str, earlier: object, wanted: object) -> UserError:
        return UserError(
            f"home {self._config.home} holds checkpoints of model.{key} {earlier!r}, not "
            f"{wanted!r}: choose another --home, name that model again, or move its checkpoints "
            "away"
        )


def waiting_of(extra: Mapping[str, Any]) -> list[str]:
    """The rounds in a checkpoint that were generated and not trained on. One of MALFORMED where
    they cannot be read.
    """
    waiting = [str(text) for text in extra.get("waiting", [])]
    for text in waiting:
        read_waiting(text)
    return waiting


class CheckpointWriter:
    """Writes checkpoints. A failed write is a warning: training goes on."""

    def __init__(
        self,
        config: NodeConfig,
        node: Node,
        policy: Policy,
        telemetry: Telemetry,
        measured: Measured,
        clock: Callable[[], float],
        practice: Practice | None = None,
    ) -> None:
        """`measured`: what validation has found, to which it adds. `clock`: seconds. `practice`: of
        a node that chooses its tasks.
        """
        self._practice = practice
        self._home, self._config = config.home.expanduser(), config.checkpoint
        self._node, self._policy, self._telemetry, self._measured = (
            node,
            policy,
            telemetry,
            measured,
        )
        model = config.model.model_copy(update={"revision": policy.commit or config.model.revision})
        self._whose = {"peer_id": node.peer_id, "model": model.model_dump(mode="json")}
        if made_of := named.digest(config.model.name):
            self._whose[DIGEST] = made_of
        self._clock = clock
        self._tried = -inf  # when this run last tried to write a checkpoint
        self.seconds = 0.0  # that the last checkpoint took to write

    def due(self, done: int) -> bool:
        """Whether a checkpoint is to be written after `done` rounds. The first one of a run is
        early: it shows that there is room, and how long it takes.
        """
        every = self._config.every
        by_rounds = bool(every) and done % every == 0
        return by_rounds or self._clock() - self._tried >= 60 * self._config.minutes

    def save(self, done: int, waiting: list[str]) -> str:
        """Saves a checkpoint after `done` rounds. Returns why that failed, or "". After a failure
        the older checkpoints are whole, and the next one may succeed.
        """
        extra = {
            "pool": self._node.inbox.snapshot(),
            "defence": self._node.defence.snapshot(),
            "waiting": waiting,
        }
        extra[MEASURED] = self._measured.model_dump()
        state = self._practice.curriculum.state if self._practice else CurriculumState()
        extra[CURRICULUM] = state.model_dump()
        self._tried = self._clock()
        failed = self._write(LAST, done, extra, KEPT, STATES)
        self.seconds = self._clock() - self._tried
        if failed:
            trouble = (
                f"no checkpoint could be written after {done} rounds: {failed}; "
                f"training continues; make room in {self._home}"
            )
            self._telemetry.emit(Warned(trouble))
        else:
            self.look()
        return failed

    def look(self) -> None:
        """Warns where there is no room for the next checkpoint, before it is due."""
        try:
            free, needed = shutil.disk_usage(self._home).free, self._needed() * SPARE
        except OSError:
            return
        if free < needed:
            text = (
                f"the next checkpoint needs {needed / 1e6:.1f} MB, and {free / 1e6:.1f} MB are "
                f"free in {self._home}"
            )
            self._telemetry.emit(Warned(f"{text}: make room there"))

    def keep_best(self, measured: Validated) -> None:
        """Saves the best checkpoint so far in place of the one before."""
        if failed := self._write(BEST, measured.round, {REWARD: measured.reward}, 1, 0):
            self._telemetry.emit(
                Warned(
                    f"the best checkpoint so far was not kept: {failed}; make room for the next one"
                )
            )

    def _needed(self) -> int:
        """Bytes of a checkpoint: those of the last, else the size of weights and optimiser
        state.
        """
        if kept := checkpoint.all_checkpoints(self._home / LAST):
            return sum(path.stat().st_size for path in kept[-1].iterdir())
        weights = list(self._policy.model.parameters())
        return sum(
            each.numel() * (each.element_size() + ADAM_BYTES * each.requires_grad)
            for each in weights
        )

    def _write(self, folder: str, done: int, extra: dict[str, Any], keep: int, states: int) -> str:
        trainer, whole = self._node.trainer, {**self._whose, **extra}
        if not trainer.is_finite():
            raise Diverged(
                f"weights are not finite after {done} rounds, and are not saved: the checkpoint "
                f"before them is in {self._home}; give a smaller training.learning_rate",
                sound=False,
            )
        try:
            path = attempt(
                lambda: checkpoint.save(
                    self._home / folder, done, self._policy, trainer, whole, keep, states
                ),
                "in writing a checkpoint",
            )
        except (OSError, OutOfMemory) as error:
            return getattr(error, "strerror", None) or str(error)
        self._telemetry.emit(CheckpointSaved(done, str(path)))
        return ""


def _same_model(earlier: str, wanted: str, earlier_digest: str) -> bool:
    """Whether both names are of one model. Where its folder moved, the digest of what is in it
    decides.
    """
    moved = bool(earlier_digest) and named.digest(wanted) == earlier_digest
    return named.same(earlier, wanted) or moved


def _short(error: Exception) -> str:
    """The error in at most 120 characters. A KeyError says only the key."""
    text = first_line(error, 120)
    return f"{text} is missing" if isinstance(error, KeyError) else text
