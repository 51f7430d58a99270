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


class Weights:
    """LoRA: the server has the base, and loads the adapters in the place of the last ones. All weights: it reads the
    folder that it serves again."""

    def __init__(self, policy: Policy, folder: Path, dtype: torch.dtype | None) -> None:
        """`dtype`: the type that all weights are served in, where it is known."""
        self._policy, self._folder = policy, folder
        self._adapters = has_adapters(policy)
        self._dtype = None if self._adapters else dtype

    @property
    def model(self) -> str:
        """The name of the model in a request."""
        return ADAPTER if self._adapters else str(self._folder)

    def write(self) -> None:
        """Beside the folder first, so that each file in it is whole."""
        partial = self._folder.with_name(self._folder.name + ".partial")
        self._policy.save(partial, self._dtype)
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in partial.iterdir():
            file.replace(self._folder / file.name)
        shutil.rmtree(partial)

    def hand_over(self, ask: Ask) -> None:
        """The present weights, to the server that `ask` asks."""
        self.write()
        if self._adapters:
            adapter = {"lora_name": ADAPTER, "lora_path": str(self._folder), "load_inplace": True}
            ask("/v1/load_lora_adapter", adapter, in_words=True)
        else:
            ask("/collective_rpc", {"method": "reload_weights"})
