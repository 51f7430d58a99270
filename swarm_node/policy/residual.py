"""Keeps in float32 what the layers of a model add their results to, where its products are in
bfloat16: the residual stream.

bfloat16 has 8 bits: what a layer adds to a value that is 300 times as large is lost. A trained
model has such values, and the small changes that an update makes are lost first. A model whose
weights are float32 has a residual stream in float32 under autocast. One whose weights are bfloat16,
such as the frozen base of LoRA on a card, gets it here.
"""

from typing import Any

import torch
from torch import Tensor

from swarm_node.policy.llama.families import is_known
from swarm_node.policy.llama.four_bits import is_four_bits


def residual_dtype(products: torch.dtype) -> torch.dtype:
    """The type of the residual stream, by that of the matrix products."""
    return torch.promote_types(products, torch.float32)


def keep_in_float32(model: Any, autocast: torch.dtype | None) -> None:
    """Makes the model compute its residual stream in float32, if autocast rounds what its linear
    layers read. For models whose layers are known to take it: others may add parts of two types.
    """
    if autocast is None or not is_known(model.config):
        return
    embedding = model.get_input_embeddings()
    if embedding.weight.dtype.itemsize < 4:
        embedding.register_forward_hook(_widened)
    # Autocast does not know these layers: they would put out float32 for float32
    for module in model.modules():
        if is_four_bits(getattr(module, "base_layer", None)):
            module.register_forward_pre_hook(_Rounded(autocast))


def _widened(module: Any, inputs: Any, embedded: Tensor) -> Tensor:
    return embedded.to(residual_dtype(embedded.dtype))


class _Rounded:
    """A hook that rounds the input of a layer. A class, as a model with hooks is copied."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype

    def __call__(self, module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (inputs[0].to(self._dtype), *inputs[1:])
