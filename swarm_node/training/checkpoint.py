"""Checkpoints: a Hugging Face model folder that `from_pretrained` opens, plus what an exact resume
needs.

A checkpoint is written beside its final name, brought to disk and renamed, so that a folder with a
final name is whole: a kill or a full disk in the middle leaves the older checkpoints untouched.
Tensors are safetensors, the rest is JSON; nothing is pickled. Random streams are derived from
(seed, peer, round), so there is no generator state to keep.
"""

import filecmp
import json
import os
import shutil
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from swarm_node.common.errors import UserError, printable
from swarm_node.policy import soundness
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.interfaces import Trainer

# The number rises when what `extra` holds changes: tests/core/training/test_checkpoint_schema.py
FORMAT = 2
STATE, OPTIMIZER = "state.json", "optimizer.safetensors"
PARTIAL = ".partial-"
DAMAGED = "damaged-"


def save(
    folder: Path,
    rounds: int,
    policy: Policy,
    trainer: Trainer,
    extra: dict[str, Any],
    keep: int,
    states: int = 2**31,
) -> Path:
    """Write the checkpoint taken after `rounds` rounds; delete all but the newest `keep`. OSError
    on a full disk.

    Args:
        states: so many of the newest keep the optimiser's state, which is twice as large as the
            weights.
    """
    final, partial = folder / f"{rounds:08d}", folder / f"{PARTIAL}{rounds:08d}"
    if (final / STATE).is_file():
        return final
    for left_over in (final, *folder.glob(f"{PARTIAL}*")):  # damaged, or left by a kill
        if left_over.is_symlink():
            left_over.unlink()
        shutil.rmtree(left_over, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        policy.save(partial)
        if states:
            trainer.save(partial / OPTIMIZER)
        counts = {"rounds": rounds, "optimizer_steps": trainer.steps, "version": policy.version}
        state = {"format": FORMAT, "made_by": made_by(), **counts, "extra": extra}
        (partial / STATE).write_text(json.dumps(state))
        _link_equal(
            partial,
            [old for other in folder.parent.iterdir() for old in all_checkpoints(other)[-1:]],
        )
        for path in (*partial.iterdir(), partial):
            _sync(path)
        partial.rename(final)
        _sync(folder)
    except Exception as error:
        shutil.rmtree(partial, ignore_errors=True)
        # Safetensors wraps those of the system
        if isinstance(error, OSError) or "os error" in str(error).lower():
            raise OSError(str(error)) from error
        raise
    for old in all_checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    for old in all_checkpoints(folder)[: -states or None]:
        (old / OPTIMIZER).unlink(missing_ok=True)
    return final


def made_by() -> str:
    """The version of this installation, for people who find a checkpoint of another one."""
    try:
        return version("textswarm")
    except PackageNotFoundError:  # run from a folder that nobody installed
        return "unknown"


def has_state(checkpoint: Path) -> bool:
    """Whether the optimiser's state was kept."""
    return (checkpoint / OPTIMIZER).exists()


def _link_equal(partial: Path, others: list[Path]) -> None:
    """Replaces files that another checkpoint has too, such as the tokenizer's, by hard links where
    possible.
    """
    for file in partial.iterdir():
        for twin in (other / file.name for other in others):
            if twin.exists() and filecmp.cmp(file, twin, shallow=False):
                with suppress(OSError):  # not on every file system
                    spare = file.with_suffix(".link")
                    spare.hardlink_to(twin)
                    spare.replace(file)
                break


def all_checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first. A link is none: older checkpoints are deleted, and it may
    lead to those of another home.
    """
    found = (path for path in folder.glob("[0-9]*") if not path.is_symlink())
    return sorted(path for path in found if (path / STATE).is_file())


def read_state(checkpoint: Path) -> dict[str, Any]:
    """`rounds`, `optimizer_steps` and what was given as `extra`. Raises Damaged; UserError for a
    format that this version does not know. Of an older format, `extra` may lack things.
    """
    soundness.check_plain(checkpoint)
    state = soundness.read_state(checkpoint / STATE)
    if not 1 <= state["format"] <= FORMAT:
        maker = printable(str(state.get("made_by", "unknown")), 40)
        raise UserError(
            f"checkpoint {checkpoint} was made by another version of swarm-node ({maker}, "
            f"format {state['format']}; this version reads up to {FORMAT}): upgrade swarm-node"
        )
    return state


def is_older(state: dict[str, Any]) -> bool:
    """Whether an older version, with another format, made the checkpoint of this state."""
    return bool(state["format"] < FORMAT)


def restore_trainer(checkpoint: Path, trainer: Trainer) -> None:
    """Restores the optimiser's state, if it was kept, and counts. The policy's weights were loaded
    from the same folder before. Raises Damaged.
    """
    counts = read_state(checkpoint)
    version = counts["rounds"] if counts["version"] is None else counts["version"]
    file = checkpoint / OPTIMIZER if has_state(checkpoint) else None
    trainer.restore(file, counts["optimizer_steps"], version)


def set_aside(checkpoint: Path) -> Path:
    """Renames a damaged checkpoint, so that it is no longer taken for one. Raises OSError."""
    aside = checkpoint.with_name(f"{DAMAGED}{checkpoint.name}")
    shutil.rmtree(aside, ignore_errors=True)
    checkpoint.rename(aside)
    return aside


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
