"""A hand-written training forward for Llama- and Qwen-shaped models in float32 on a CPU: the same in fewer passes.

What it saves: the weights of a norm go into those of the product behind it, q, k and v are one product, as are gate and
up, rotary embedding is one complex product, the last layer goes on with the columns that predict something only, and
large products go through oneDNN, 1.13 times as fast as torch's own here. Gradients go to the model's parameters.

Under LoRA the frozen weights are read where they lie, never copied; adapters of layers side by side are one product.

What it is not: trusted blindly. `Policy.packing` compares its logits with the model's before use; other adapters, FP8,
other devices, types and architectures keep the library's forward.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swarm_node.policy import tree_attention
from swarm_node.policy.batch import Batch
from swarm_node.policy.llama.families import require_known
from swarm_node.policy.llama.merging import adapters_of, base_of, require_mergeable
from swarm_node.policy.recompute import recomputed
from swarm_node.policy.tree_attention import Tree

ONEDNN_FROM = 2**26  # multiplications of a product: a shape that it has not seen costs oneDNN a millisecond


class LlamaTraining:
    """Hidden states and logits with gradients. Reads the parameters whenever it is called."""

    def __init__(self, model: Any) -> None:
        """Raises TypeError for a model that it does not know."""
        require_known(model)
        require_mergeable(model)
        if type(model.lm_head) is not nn.Linear:
            raise TypeError("an output head with adapters is not known here")
        odd = [name for name, p in model.named_parameters() if p.dtype != torch.float32 or p.device.type != "cpu"]
        linear = [m for layer in model.model.layers for m in layer.modules() if hasattr(m, "in_features")]
        self._adapted = any(hasattr(m, "base_layer") for m in linear)
        trained = {name for name, p in model.named_parameters() if p.requires_grad and ".lora_" not in name}
        if odd or (self._adapted and trained) or any(type(base_of(m)) is not nn.Linear for m in linear):
            raise TypeError("only linear layers in float32 on a CPU are known here, plain or frozen under LoRA")
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
        x = x + self._product(seen, None, layer.self_attn.o_proj)
        return x + self._feed_forward(layer, x)

    def _attention(self, layer: Any, x: Tensor, turn: Tensor, tree: Tree) -> Tensor:
        """What each column saw, [L, heads * dim]."""
        own, dim = layer.self_attn, self._dim
        turned = self._heads + self._kv_heads
        qkv = self._product(x, layer.input_layernorm, own.q_proj, own.k_proj, own.v_proj, pairs=turned)
        q, k, v = torch.split(
            qkv.view(-1, turned + self._kv_heads, dim), [self._heads, self._kv_heads, self._kv_heads], 1
        )
        if self._adapted:
            q, k = (part.unflatten(2, (2, -1)).transpose(2, 3).flatten(2) for part in (q, k))
        if hasattr(own, "q_norm"):  # Qwen3 normalises each head's queries and keys
            q, k = (
                _Norm.apply(part, self._eps) * norm.weight[self._pairs]  # type: ignore[no-untyped-call]
                for part, norm in ((q, own.q_norm), (k, own.k_norm))
            )
        q, k = _Turned.apply(q, turn), _Turned.apply(k, turn)  # type: ignore[no-untyped-call]
        return tree_attention.attend(q, k, v, tree, dim**-0.5).flatten(1)

    def _feed_forward(self, layer: Any, x: Tensor) -> Tensor:
        mlp = layer.mlp
        both = self._product(x, layer.post_attention_layernorm, mlp.gate_proj, mlp.up_proj)
        return self._product(_Gated.apply(both), None, mlp.down_proj)  # type: ignore[no-untyped-call]

    def _product(self, x: Tensor, norm: Any, *linears: Any, pairs: int = 0) -> Tensor:
        """What layers side by side make of x, normalised first if there is a norm; of layers without adapters the first
        `pairs` heads have their halves side by side."""
        if norm is not None:
            x = _Norm.apply(x, self._eps)  # type: ignore[no-untyped-call]
        if self._adapted:
            return _adapted(x if norm is None else x * norm.weight, linears)
        weight, bias = _joined(linears)
        if norm is not None:
            weight = weight * norm.weight
        if pairs:
            order = torch.arange(len(weight)).view(-1, self._dim)
            order[:pairs] = order[:pairs, self._pairs]
            weight, bias = weight[order.flatten()], None if bias is None else bias[order.flatten()]
        return _linear(x, weight, bias)

    def _rotation(self, positions: Tensor) -> Tensor:
        """Complex [L, 1, dim / 2]: what turns each pair of a head at each position."""
        rotary = self._model.model.rotary_emb
        angles = positions[:, None].float() * rotary.inv_freq
        scale: float = rotary.attention_scaling
        return torch.polar(torch.full_like(angles, scale), angles).unsqueeze(1)


def _joined(linears: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of linear layers side by side."""
    weights: list[Tensor] = [linear.weight for linear in linears]
    return torch.cat(weights) if len(weights) > 1 else weights[0], _bias(linears)


def _bias(linears: Sequence[Any]) -> Tensor | None:
    biases: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    return torch.cat(biases) if len(biases) == len(linears) else None


def _adapted(x: Tensor, linears: Sequence[Any]) -> Tensor:
    """What frozen layers side by side make of x, with what their adapters add."""
    adapters, bases = [adapters_of(linear) for linear in linears], [base_of(linear) for linear in linears]
    down = torch.cat([x.new_empty(0, x.shape[1]), *(down for own in adapters for down, _ in own)])
    ups = [
        torch.cat([base.weight.new_empty(len(base.weight), 0), *(up for _, up in own)], dim=1)
        for base, own in zip(bases, adapters, strict=True)
    ]
    made: Tensor = _Adapted.apply(x, down, torch.block_diag(*ups), _bias(bases), *(base.weight for base in bases))  # type: ignore[no-untyped-call]
    return made


class _Adapted(torch.autograd.Function):
    """x W^T + b + (x A^T) B^T, with gradients of x, A and B alone. The rows of W lie in several weights."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, down: Tensor, up: Tensor, bias: Tensor | None, *weights: Tensor) -> Tensor:
        made = x.new_empty(len(x), len(up))
        for weight, part in zip(weights, made.split([len(weight) for weight in weights], dim=1), strict=True):
            torch.mm(x, weight.T, out=part)
        inner = x @ down.T
        ctx.save_for_backward(x, inner, down, up, *weights)
        return (made if bias is None else made.add_(bias)).addmm_(inner, up.T)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, inner, down, up, *weights = ctx.saved_tensors
        g = gradients[0]
        of_inner = g @ up
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = of_inner @ down
            for weight, part in zip(weights, g.split([len(weight) for weight in weights], dim=1), strict=True):
                of_x.addmm_(part, weight)
        return of_x, of_inner.T @ x, g.T @ inner, None, *(None for _ in weights)


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
