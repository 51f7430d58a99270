"""How weights get into a vLLM server: LoRA adapters by hot load, all weights by the folder that it serves. By CUDA IPC
the server would unpickle what it is sent."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from swarm_node.policy.policy import Policy

ADAPTER = "swarm-node"  # the name that the server knows our adapters by
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM takes as the largest

Ask = Callable[..., dict[str, Any]]  # a path, a body, and `in_words`


def has_adapters(policy: Policy) -> bool:
    """Whether LoRA adapters are trained, not all weights."""
    return hasattr(policy.model, "disable_adapter")


def adapter_rank(policy: Policy) -> int:
    """The smallest largest rank that holds the policy's adapters."""
    rank = max(int(config.r) for config in policy.model.peft_config.values())
    return next(most for most in RANKS if most >= rank)


class Folder:
    """All weights: written to the folder that the server serves, which reads it again."""

    def __init__(self, policy: Policy, folder: Path, dtype: torch.dtype | None) -> None:
        """`dtype`: the type that is served, where it is known."""
        self._policy, self._folder, self._dtype = policy, folder, dtype

    @property
    def model(self) -> str:
        """The name of the model in a request."""
        return str(self._folder)

    def write(self) -> None:
        """Into the folder."""
        _replaced(self._policy, self._folder, self._dtype)

    def hand_over(self, ask: Ask) -> None:
        """The present weights, to the server that `ask` asks."""
        self.write()
        ask("/collective_rpc", {"method": "reload_weights"})


class Adapters:
    """LoRA: the server has the base, and loads the adapters in the place of the last ones."""

    def __init__(self, policy: Policy, folder: Path) -> None:
        self._policy, self._folder = policy, folder

    @property
    def model(self) -> str:
        """The name of the model in a request."""
        return ADAPTER

    def write(self) -> None:
        """Into the folder."""
        _replaced(self._policy, self._folder, None)

    def hand_over(self, ask: Ask) -> None:
        """The present adapters, to the server that `ask` asks."""
        self.write()
        ask(
            "/v1/load_lora_adapter",
            {"lora_name": ADAPTER, "lora_path": str(self._folder), "load_inplace": True},
            in_words=True,
        )


def _replaced(policy: Policy, folder: Path, dtype: torch.dtype | None) -> None:
    """Written beside the folder first, so that each file in it is whole."""
    partial = folder.with_name(folder.name + ".partial")
    policy.save(partial, dtype)
    folder.mkdir(parents=True, exist_ok=True)
    for file in partial.iterdir():
        file.replace(folder / file.name)
    shutil.rmtree(partial)
