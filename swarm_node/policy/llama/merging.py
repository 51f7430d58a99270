"""The weight that a linear layer multiplies by, LoRA adapters added: for forwards that only generate.

Training never merges: an adapter there keeps its own products, and so its exact gradients. What is not known to be a
sum is refused, since fresh adapters change nothing and no comparison of logits would tell.
"""

from typing import Any

import torch
from torch import Tensor, nn

from swarm_node.policy.llama.families import require_known

WRAPPERS = ("base_layer", "modules_to_save")  # what peft calls a module inside another


def require_mergeable(model: Any) -> None:
    """Raises TypeError for a model of another family, and for adapters but plain LoRA on plain linear layers."""
    require_known(model)
    for name, _ in model.named_modules():
        if name.endswith(WRAPPERS):
            _require_plain_lora(model.get_submodule(name.rpartition(".")[0]))
    if type(embedding := model.get_input_embeddings()) is not nn.Embedding:
        raise TypeError(f"{type(embedding).__name__} is not a plain embedding")


def merged_weight(module: Any) -> Tensor:
    """Of a plain linear layer, or of one under LoRA; TypeError for any other.

    The sum is made in float32, and its rounding is that of the type it is cast to afterwards.
    """
    if type(module) is nn.Linear:
        return module.weight.detach()
    _require_plain_lora(module)
    weight: Tensor = module.base_layer.weight.detach().float()
    for down, up in adapters_of(module):
        weight = torch.addmm(weight, up.detach().float(), down.detach().float())
    return weight


def base_of(module: Any) -> Any:
    """The layer under LoRA, or the module itself."""
    return getattr(module, "base_layer", module)


def adapters_of(module: Any) -> list[tuple[Tensor, Tensor]]:
    """Both weights of each LoRA adapter at work in a module, [rank, in] and, scaled, [out, rank]."""
    if not hasattr(module, "lora_A") or module.disable_adapters:
        return []
    names = [name for name in module.active_adapters if name in module.lora_A]
    return [(module.lora_A[name].weight, module.lora_B[name].weight * module.scaling[name]) for name in names]


def _require_plain_lora(module: Any) -> None:
    base = getattr(module, "base_layer", None)
    named = f"{type(module).__name__} around {type(base).__name__}"
    if type(base) is not nn.Linear or not hasattr(module, "lora_A") or not hasattr(module, "scaling"):
        raise TypeError(f"{named} is not LoRA on a plain linear layer")
    if module.lora_variant or any(module.lora_bias.values()) or module.merged or module.disable_adapters:
        raise TypeError(f"{named} is not plain LoRA at work")
