"""Checkpoints: a Hugging Face model folder that `from_pretrained` opens, plus what an exact resume needs.

A checkpoint is written beside its final name, brought to disk and renamed, so that a folder with a final name is whole:
a kill or a full disk in the middle leaves the older ones untouched. Tensors are safetensors, the rest is JSON; nothing
is pickled. Random streams are derived from (seed, peer, round), so there is no generator state to keep.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from swarm_node.common.errors import UserError
from swarm_node.compute.policy import Policy
from swarm_node.compute.training import soundness
from swarm_node.compute.training.soundness import Damaged
from swarm_node.compute.training.trainer import GrpoTrainer

FORMAT = 1
STATE, OPTIMIZER = "state.json", "optimizer.safetensors"
PARTIAL = ".partial-"
DAMAGED = "damaged-"


def save(folder: Path, rounds: int, policy: Policy, trainer: GrpoTrainer, extra: dict[str, Any], keep: int) -> Path:
    """Write the checkpoint taken after `rounds` rounds, let go of all but the newest `keep`. OSError on a full disk."""
    final, partial = folder / f"{rounds:08d}", folder / f"{PARTIAL}{rounds:08d}"
    if final.exists():
        return final
    for left_over in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(left_over)
    try:
        partial.mkdir(parents=True)
        policy.save(partial)
        save_file(_optimizer_tensors(trainer), partial / OPTIMIZER)
        counts = {"rounds": rounds, "optimizer_steps": trainer.steps, "version": policy.version}
        state = {"format": FORMAT, **counts, "extra": extra}
        (partial / STATE).write_text(json.dumps(state))
        _to_disk(partial)
        partial.rename(final)
        _sync(folder)
    except Exception as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError) or "os error" in str(error).lower():  # safetensors wraps those of the system
            raise OSError(str(error)) from error
        raise
    for old in all_checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def all_checkpoints(folder: Path) -> list[Path]:
    """Whole ones, oldest first."""
    return sorted(path for path in folder.glob("[0-9]*") if (path / STATE).is_file())


def read_state(checkpoint: Path) -> dict[str, Any]:
    """`rounds`, `optimizer_steps` and what was given as `extra`. Raises Damaged; UserError for another format."""
    state = soundness.read_state(checkpoint / STATE)
    if state["format"] != FORMAT:
        raise UserError(f"checkpoint {checkpoint} has format {state['format']}, this version reads {FORMAT}")
    return state


def restore_trainer(checkpoint: Path, trainer: GrpoTrainer) -> None:
    """Optimiser state and counts. The policy's weights were loaded from the same folder before. Raises Damaged."""
    try:
        tensors = load_file(checkpoint / OPTIMIZER)
    except Exception as error:  # safetensors raises a type of its own
        raise Damaged(f"{OPTIMIZER}: {str(error)[:100]}") from error
    parameters = [each for group in trainer.optimizer.param_groups for each in group["params"]]
    soundness.check_optimizer(tensors, parameters)
    counts = read_state(checkpoint)
    trainer.steps = counts["optimizer_steps"]
    trainer.policy.version = counts["rounds"] if counts["version"] is None else counts["version"]
    state = trainer.optimizer.state_dict()
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        state["state"].setdefault(int(index), {})[name] = tensor
    trainer.optimizer.load_state_dict(state)


def check_plain(checkpoint: Path) -> None:
    """See soundness.check_plain."""
    soundness.check_plain(checkpoint)


def set_aside(checkpoint: Path) -> Path:
    """A damaged one, kept under a name that is not taken for a checkpoint. OSError."""
    aside = checkpoint.with_name(f"{DAMAGED}{checkpoint.name}")
    shutil.rmtree(aside, ignore_errors=True)
    checkpoint.rename(aside)
    return aside


def _optimizer_tensors(trainer: GrpoTrainer) -> dict[str, torch.Tensor]:
    states = trainer.optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": torch.as_tensor(value).detach().cpu().contiguous()
        for index, values in states.items()
        for name, value in values.items()
    }


def _to_disk(folder: Path) -> None:
    for path in folder.iterdir():
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
