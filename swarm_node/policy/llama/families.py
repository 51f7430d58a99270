"""Which architectures the hand-written forwards know. Gemma 3 is not among them: its windows, four norms a block, two
rotary bases and scaled embedding would need a second decoder."""

from typing import Any

FAMILIES = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
STATIC_ROPE = {"default", "linear", "llama3", "yarn"}  # frequencies that do not depend on the sequence length


def require_known(model: Any) -> None:
    """Raises TypeError for a model that is not one of these."""
    config = model.config
    if type(model).__name__ not in FAMILIES:
        raise TypeError(f"{type(model).__name__} is not among {sorted(FAMILIES)}")
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or []):
        raise TypeError("sliding-window layers are not known here")
    if (config.rope_parameters or {}).get("rope_type", "default") not in STATIC_ROPE:
        raise TypeError("rotary embedding whose frequencies change with length")
