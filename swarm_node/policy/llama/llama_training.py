"""A hand-written training forward for Llama- and Qwen-shaped models in float32 on a CPU: the same in fewer passes.

What it saves: the weights of a norm go into those of the product behind it, q, k and v are one product, as are gate and
up, rotary embedding is one complex product, the last layer goes on with the columns that predict something only, and
large products go through oneDNN, 1.13 times as fast as torch's own here. Gradients go to the model's parameters.

What it is not: trusted blindly. `Policy.packing` compares its logits with the model's before use; adapters, FP8, other
devices, types and architectures keep the library's forward.
"""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swarm_node.policy import tree_attention
from swarm_node.policy.batch import Batch
from swarm_node.policy.llama.families import require_known
from swarm_node.policy.recompute import recomputed
from swarm_node.policy.tree_attention import Tree

ONEDNN_FROM = 2**26  # multiplications of a product: a shape that it has not seen costs oneDNN a millisecond


class LlamaTraining:
    """Hidden states and logits with gradients. Reads the parameters whenever it is called."""

    def __init__(self, model: Any) -> None:
        """Raises TypeError for a model that it does not know."""
        require_known(model)
        odd = [name for name, p in model.named_parameters() if p.dtype != torch.float32 or p.device.type != "cpu"]
        linear = [m for layer in model.model.layers for m in layer.modules() if hasattr(m, "in_features")]
        if odd or any(type(m) is not nn.Linear for m in linear):
            raise TypeError("only plain linear layers in float32 on a CPU are known here")
        config = model.config
        self._model = model
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._dim = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        self._eps = config.rms_norm_eps
        # Halves of a head side by side, so that a pair to be rotated is one complex number. q k^T does not mind.
        self._pairs = torch.arange(self._dim).view(2, -1).T.flatten()

    def hidden(self, batch: Batch, recompute: bool = False) -> Tensor:
        """[U, D] before the output head, of the columns of a tree that predict. `recompute`: layers keep their input
        alone, and are computed again on the way back."""
        assert batch.tree is not None
        model = self._model.model
        turn = self._rotation(batch.positions_RL[0])
        compute = partial(recomputed, self._layer) if recompute and torch.is_grad_enabled() else self._layer
        x = model.embed_tokens(batch.ids_RL[0])
        for number, layer in enumerate(model.layers, start=1):
            x = compute(layer, x, turn, batch.tree, batch.columns_U if number == len(model.layers) else None)
        normed: Tensor = _Norm.apply(x, self._eps) * model.norm.weight  # type: ignore[no-untyped-call]
        return normed

    def logits(self, batch: Batch, recompute: bool = False) -> Tensor:
        """[U, V] of a tree."""
        return F.linear(self.hidden(batch, recompute), self._model.lm_head.weight, self._model.lm_head.bias)

    def _layer(self, layer: Any, x: Tensor, turn: Tensor, tree: Tree, wanted: Tensor | None) -> Tensor:
        """Hidden states behind a layer; of the `wanted` columns alone, where they are given."""
        seen = self._attention(layer, x, turn, tree)
        if wanted is not None:
            x, seen = x[wanted], seen[wanted]
        x = x + _linear(seen, layer.self_attn.o_proj.weight, layer.self_attn.o_proj.bias)
        return x + self._feed_forward(layer, x)

    def _attention(self, layer: Any, x: Tensor, turn: Tensor, tree: Tree) -> Tensor:
        """What each column saw, [L, heads * dim]."""
        own, dim = layer.self_attn, self._dim
        weight, bias = _joined(own.q_proj, own.k_proj, own.v_proj)
        turned = self._heads + self._kv_heads
        order = torch.arange(weight.shape[0]).view(-1, dim)
        order[:turned] = order[:turned, self._pairs]
        weight = (weight * layer.input_layernorm.weight)[order.flatten()]
        bias = None if bias is None else bias[order.flatten()]
        normed = _Norm.apply(x, self._eps)  # type: ignore[no-untyped-call]
        qkv = _linear(normed, weight, bias).view(-1, turned + self._kv_heads, dim)
        q, k, v = torch.split(qkv, [self._heads, self._kv_heads, self._kv_heads], dim=1)
        if hasattr(own, "q_norm"):  # Qwen3 normalises each head's queries and keys
            q, k = (
                _Norm.apply(part, self._eps) * norm.weight[self._pairs]  # type: ignore[no-untyped-call]
                for part, norm in ((q, own.q_norm), (k, own.k_norm))
            )
        q, k = _Turned.apply(q, turn), _Turned.apply(k, turn)  # type: ignore[no-untyped-call]
        return tree_attention.attend(q, k, v, tree, dim**-0.5).flatten(1)

    def _feed_forward(self, layer: Any, x: Tensor) -> Tensor:
        mlp = layer.mlp
        weight, bias = _joined(mlp.gate_proj, mlp.up_proj)
        normed = _Norm.apply(x, self._eps)  # type: ignore[no-untyped-call]
        both = _linear(normed, weight * layer.post_attention_layernorm.weight, bias)
        return _linear(_Gated.apply(both), mlp.down_proj.weight, mlp.down_proj.bias)  # type: ignore[no-untyped-call]

    def _rotation(self, positions: Tensor) -> Tensor:
        """Complex [L, 1, dim / 2]: what turns each pair of a head at each position."""
        rotary = self._model.model.rotary_emb
        angles = positions[:, None].float() * rotary.inv_freq
        scale: float = rotary.attention_scaling
        return torch.polar(torch.full_like(angles, scale), angles).unsqueeze(1)


def _joined(*linears: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of linear layers side by side."""
    biases: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    weights: list[Tensor] = [linear.weight for linear in linears]
    return torch.cat(weights), torch.cat(biases) if len(biases) == len(linears) else None


class _Norm(torch.autograd.Function):
    """x / rms(x) over the last dimension, without a weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        scale: Tensor = torch.linalg.vecdot(x, x).div_(x.shape[-1]).add_(eps).rsqrt_().unsqueeze_(-1)
        normed: Tensor = x * scale
        ctx.save_for_backward(normed, scale)
        return normed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        normed, scale = ctx.saved_tensors
        along = torch.linalg.vecdot(gradients[0], normed).div_(normed.shape[-1]).unsqueeze_(-1)
        return torch.addcmul(gradients[0], normed, along, value=-1).mul_(scale), None


class _Turned(torch.autograd.Function):
    """Pairs [..., dim] as complex numbers times `turn`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, turn: Tensor) -> Tensor:
        ctx.turn = turn
        return _turned(x, turn)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _turned(gradients[0], ctx.turn.conj()), None


def _turned(x: Tensor, turn: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    turned: Tensor = torch.view_as_real(pairs * turn).flatten(-2)
    return turned


class _Gated(torch.autograd.Function):
    """silu(gate) * up of [L, gate and up]."""

    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:
        gate, up = both.chunk(2, dim=-1)
        opened = F.silu(gate)
        ctx.save_for_backward(both, opened)
        return opened * up

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        both, opened = ctx.saved_tensors
        (gate, up), result = both.chunk(2, dim=-1), torch.empty_like(both)
        of_gate, of_up = result.chunk(2, dim=-1)
        torch.mul(gradients[0], opened, out=of_up)
        torch.ops.aten.silu_backward(gradients[0] * up, gate, grad_input=of_gate)
        return result


class _OneDnn(torch.autograd.Function):
    """x W^T + b, where torch's own product is as good for the gradient of the weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        g = gradients[0]
        return _onednn(g, weight.T, None), g.T @ x, g.sum(0) if ctx.needs_input_grad[2] else None


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The operator is private to torch, so taken only where it is; without it only rounding differs."""
    large = len(x) * weight.numel() >= ONEDNN_FROM
    if large and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # type: ignore[no-untyped-call]
        product: Tensor = _OneDnn.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return product
    return F.linear(x, weight, bias)
