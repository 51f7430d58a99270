"""Which models the hand-written forwards know: architectures, and what LoRA may wrap in them.

Gemma 3 is not among them: its windows, four norms a block, two rotary bases and scaled embedding
would need a second decoder.
"""

from typing import Any

from torch import nn

from swarm_node.policy.llama.four_bits import is_four_bits

WRAPPERS = ("base_layer", "modules_to_save")  # peft's names for a module inside another
FAMILIES = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
MODEL_TYPES = {"llama", "qwen2", "qwen3"}  # of the same, as their config.json has it
# Frequencies that do not depend on the sequence length
STATIC_ROPE = {"default", "linear", "llama3", "yarn"}


def is_known(config: Any) -> bool:
    """Whether our decoder is made for the models of this transformers configuration. It may still
    refuse one: see `require_known`.
    """
    return getattr(config, "model_type", "") in MODEL_TYPES


def require_known(model: Any) -> None:
    """Raises TypeError for a model of another family, and for all adapters except plain LoRA on
    plain linear layers. Fresh adapters change no logits, so a comparison of logits would not show
    that an adapter is misread.
    """
    config = model.config
    if type(model).__name__ not in FAMILIES:
        raise TypeError(f"{type(model).__name__} is not among {sorted(FAMILIES)}")
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or []):
        raise TypeError("sliding-window layers are not known here")
    if (config.rope_parameters or {}).get("rope_type", "default") not in STATIC_ROPE:
        raise TypeError("rotary embedding whose frequencies change with length")
    for name, _ in model.named_modules():
        if name.endswith(WRAPPERS):
            require_plain_lora(model.get_submodule(name.rpartition(".")[0]))
    if type(embedding := model.get_input_embeddings()) is not nn.Embedding:
        raise TypeError(f"{type(embedding).__name__} is not a plain embedding")


def require_plain_lora(module: Any) -> None:
    """Raises TypeError unless the module is plain LoRA, enabled and unmerged, on a plain linear
    layer or on one in 4 bits.
    """
    base = getattr(module, "base_layer", None)
    named = f"{type(module).__name__} around {type(base).__name__}"
    if (
        not (type(base) is nn.Linear or is_four_bits(base))
        or not hasattr(module, "lora_A")
        or not hasattr(module, "scaling")
    ):
        raise TypeError(f"{named} is not LoRA on a plain linear layer")
    if (
        module.lora_variant
        or any(module.lora_bias.values())
        or module.merged
        or module.disable_adapters
    ):
        raise TypeError(f"{named} is not plain LoRA at work")
