"""A hand-written decode forward for Llama- and Qwen-shaped models: what makes generation on small devices fast.

Against the library's forward it saves work rather than changing it: q, k and v are one product, as are gate and up;
the group attends to its shared prompt with one product per prompt and head instead of a copy of the prompt's cache per
completion; new keys and values go into buffers allocated once, one pair per layer.

What it is not: a training forward (no gradients), a general model (other architectures keep their own forward), or
trusted blindly: `decoding.agrees` compares its logits with the model's before it is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swarm_node.compute.policy import Policy

FAMILIES = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
STATIC_ROPE = {"default", "linear", "llama3", "yarn"}  # frequencies that do not depend on the sequence length


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one layer, fused, in the compute type."""

    input_norm: Tensor
    qkv: Tensor  # [(heads + 2 kv_heads) * head_dim, hidden]
    qkv_bias: Tensor | None
    q_norm: Tensor | None  # Qwen3 normalises each head's queries and keys
    k_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor  # [2 * intermediate, hidden]
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


class LlamaDecoder:
    """Implements generator.Decoder. Takes a snapshot of the policy's weights when made."""

    def __init__(self, policy: Policy) -> None:
        model = policy.model
        config = model.config
        _require_known(model)
        self._device, self._pad_id = policy.device, policy.pad_id
        self._dtype = policy.autocast_dtype or model.dtype
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        self._eps = config.rms_norm_eps
        self._embedding = self._cast(model.model.embed_tokens.weight)
        self._final_norm = self._cast(model.model.norm.weight)
        self._head = self._cast(_weight(model.lm_head))
        self._layers = [self._fuse(layer) for layer in model.model.layers]
        rotary = model.model.rotary_emb
        self._frequencies, self._rope_scale = rotary.inv_freq.to(self._device), rotary.attention_scaling
        self._cos = self._sin = torch.empty(0)  # of the new tokens, [prompts, group, max_new, head_dim]
        self._prefix: list[tuple[Tensor, Tensor]] = []  # a layer: keys [P * kv, dim, longest], values transposed
        self._suffix: list[tuple[Tensor, Tensor]] = []  # per layer: keys and values [P, kv, group, max_new, dim]
        self._prefix_bias = torch.empty(0)  # [P, 1, 1, longest]: 0, or -inf at pads
        self._new = 0  # tokens fed since prefill

    @torch.inference_mode()
    def prefill(self, prompts: Sequence[Sequence[int]], group_size: int, max_new: int) -> Tensor:
        count, longest = len(prompts), max(map(len, prompts))
        lengths = torch.tensor([len(p) for p in prompts], device=self._device)
        ids = torch.tensor([[*p, *[self._pad_id] * (longest - len(p))] for p in prompts], device=self._device)
        self._prefix, self._suffix, self._new = [], [], 0
        cos, sin = self._rope_table(torch.arange(longest, device=self._device).repeat(count))

        def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (x.view(count, longest, -1, self._head_dim).transpose(1, 2) for x in (q, k, v))
            self._prefix.append((k.transpose(2, 3).flatten(0, 1).contiguous(), v.flatten(0, 1).contiguous()))
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return o.transpose(1, 2).reshape(count * longest, -1)

        hidden = self._forward(self._embedding[ids.flatten()], cos, sin, attend)
        last = hidden.view(count, longest, -1)[torch.arange(count, device=self._device), lengths - 1]
        pads = torch.arange(longest, device=self._device) >= lengths[:, None]
        self._prefix_bias = torch.zeros(pads.shape, dtype=self._dtype, device=self._device).masked_fill_(
            pads, float("-inf")
        )
        self._prefix_bias = self._prefix_bias[:, None, None, :]
        shape = (count, self._kv_heads, group_size, max_new, self._head_dim)
        empty = partial(torch.empty, shape, dtype=self._dtype, device=self._device)
        self._suffix = [(empty(), empty()) for _ in self._layers]
        positions = lengths[:, None, None] + torch.arange(max_new, device=self._device)
        self._cos, self._sin = self._rope_table(positions.expand(count, group_size, max_new))
        return F.linear(last, self._head).repeat_interleave(group_size, 0)

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        cos, sin = (table[:, :, self._new].flatten(0, 1).unsqueeze(1) for table in (self._cos, self._sin))
        hidden = self._forward(self._embedding[tokens], cos, sin, self._attend_new)
        self._new += 1
        return F.linear(hidden, self._head)

    def keep(self, slots: Tensor) -> None:
        group = self._cos.shape[1]
        prompts, members = slots[:, 0] // group, slots % group
        rows = prompts[:, None]
        self._cos, self._sin = self._cos[rows, members], self._sin[rows, members]
        self._prefix_bias = self._prefix_bias[prompts]
        heads = torch.arange(self._kv_heads, device=self._device)
        flat = (prompts[:, None] * self._kv_heads + heads).flatten()
        self._prefix = [(k[flat], v[flat]) for k, v in self._prefix]
        place = (prompts[:, None, None], heads[:, None], members[:, None, :])
        self._suffix = [(k[place], v[place]) for k, v in self._suffix]

    def _attend_new(self, index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """One new token per slot attends to its prompt (one product per prompt) and to its own new tokens."""
        keys, values = self._suffix[index]
        prefix_keys, prefix_values = self._prefix[index]
        prompts, kv, group, _, dim = keys.shape
        per_kv, longest, seen = self._heads // kv, prefix_values.shape[1], self._new + 1
        keys[:, :, :, self._new] = k.view(prompts, group, kv, dim).transpose(1, 2)
        values[:, :, :, self._new] = v.view(prompts, group, kv, dim).transpose(1, 2)
        q = q.view(prompts, group, kv, per_kv, dim).transpose(1, 2) * dim**-0.5  # [P, kv, group, per_kv, dim]
        by_prompt = q.reshape(prompts * kv, group * per_kv, dim)
        bias = self._prefix_bias.expand(prompts, kv, group * per_kv, longest).reshape(prompts * kv, -1, longest)
        old = torch.baddbmm(bias, by_prompt, prefix_keys)
        own_keys, own_values = (x[:, :, :, :seen].reshape(-1, seen, dim) for x in (keys, values))
        by_slot = by_prompt.reshape(prompts * kv * group, per_kv, dim)
        recent = (by_slot @ own_keys.transpose(1, 2)).view(prompts * kv, group * per_kv, seen)
        weights = torch.softmax(torch.cat([old, recent], dim=-1), dim=-1)
        out = torch.bmm(weights[..., :longest], prefix_values)
        out = out + (weights[..., longest:].reshape(-1, per_kv, seen) @ own_values).view_as(out)
        return out.view(prompts, kv, group, per_kv * dim).transpose(1, 2).reshape(prompts * group, kv * per_kv * dim)

    def _forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Any) -> Tensor:
        """Hidden states [tokens, hidden] through all layers; `attend(layer, q, k, v)` owns the cache."""
        heads, kv, dim = self._heads, self._kv_heads, self._head_dim
        size = x.shape[-1]
        for index, layer in enumerate(self._layers):
            qkv = F.linear(self._norm(x, layer.input_norm, size), layer.qkv, layer.qkv_bias).view(
                -1, heads + 2 * kv, dim
            )
            qk, v = qkv[:, : heads + kv], qkv[:, heads + kv :]
            if layer.q_norm is not None and layer.k_norm is not None:
                q, k = self._norm(qk[:, :heads], layer.q_norm, dim), self._norm(qk[:, heads:], layer.k_norm, dim)
                qk = torch.cat([q, k], dim=1)
            qk = qk * cos + _rotate_half(qk) * sin
            x = x + F.linear(attend(index, qk[:, :heads], qk[:, heads:], v), layer.out, layer.out_bias)
            gate, up = F.linear(self._norm(x, layer.mlp_norm, size), layer.gate_up, layer.gate_up_bias).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, layer.down, layer.down_bias)
        return self._norm(x, self._final_norm, size)

    def _norm(self, x: Tensor, weight: Tensor, size: int) -> Tensor:
        return F.rms_norm(x, (size,), weight, self._eps)

    def _rope_table(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin [..., 1, head_dim] for flat positions, [..., head_dim] otherwise."""
        angles = positions[..., None].float() * self._frequencies
        angles = torch.cat([angles, angles], dim=-1)
        cos, sin = (f(angles).mul_(self._rope_scale).to(self._dtype) for f in (torch.cos, torch.sin))
        return (cos.unsqueeze(1), sin.unsqueeze(1)) if positions.dim() == 1 else (cos, sin)

    def _fuse(self, layer: Any) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        qkv = [attention.q_proj, attention.k_proj, attention.v_proj]
        gate_up = [mlp.gate_proj, mlp.up_proj]
        q_norm, k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
        return Layer(
            input_norm=self._cast(layer.input_layernorm.weight),
            qkv=self._cast(torch.cat([_weight(m) for m in qkv])),
            qkv_bias=self._bias(*qkv),
            q_norm=None if q_norm is None else self._cast(q_norm.weight),
            k_norm=None if k_norm is None else self._cast(k_norm.weight),
            out=self._cast(_weight(attention.o_proj)),
            out_bias=self._bias(attention.o_proj),
            mlp_norm=self._cast(layer.post_attention_layernorm.weight),
            gate_up=self._cast(torch.cat([_weight(m) for m in gate_up])),
            gate_up_bias=self._bias(*gate_up),
            down=self._cast(_weight(mlp.down_proj)),
            down_bias=self._bias(mlp.down_proj),
        )

    def _cast(self, weight: Tensor) -> Tensor:
        return weight.detach().to(self._dtype)

    def _bias(self, *modules: nn.Linear) -> Tensor | None:
        biases = [m.bias for m in modules if m.bias is not None]
        return self._cast(torch.cat(tuple(biases))) if len(biases) == len(modules) else None


def _rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def _weight(module: Any) -> Tensor:
    """Of a plain linear layer. An adapter around it (LoRA, quantisation) computes something else: refused."""
    if type(module) is not nn.Linear:
        raise TypeError(f"{type(module).__name__} is not a plain linear layer")
    return module.weight.detach()


def _require_known(model: Any) -> None:
    config = model.config
    if type(model).__name__ not in FAMILIES:
        raise TypeError(f"{type(model).__name__} is not among {sorted(FAMILIES)}")
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or []):
        raise TypeError("sliding-window layers are not known here")
    if (config.rope_parameters or {}).get("rope_type", "default") not in STATIC_ROPE:
        raise TypeError("rotary embedding whose frequencies change with length")
