"""A hand-written training forward for Llama- and Qwen-shaped models in float32 on a CPU, in fewer
passes over memory.

It saves work: no weight is copied, layers with the same input put their products into one tensor,
as do their LoRA adapters, frozen weights get no gradient, rotary embedding is one complex product,
and the last layer keeps only the columns that predict a token. Gradients go to the model's
parameters.

`Policy.packing` compares its logits with the model's before use. Other adapters, FP8, other
devices, types and architectures keep the library's forward.
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
from swarm_node.policy.recompute import recomputed
from swarm_node.policy.tree_attention import Tree


class LlamaTraining:
    """Hidden states and logits with gradients. Reads the parameters at every call."""

    def __init__(self, model: Any) -> None:
        """Raises TypeError for a model that this forward does not know."""
        require_known(model)
        odd = [
            name
            for name, p in model.named_parameters()
            if p.dtype != torch.float32 or p.device.type != "cpu"
        ]
        linear = [
            base_of(m)
            for layer in model.model.layers
            for m in layer.modules()
            if hasattr(m, "in_features")
        ]
        if odd or any(type(m) is not nn.Linear for m in (*linear, model.lm_head)):
            raise TypeError(
                "only linear layers in float32 on a CPU are known here, plain or under LoRA"
            )
        config = model.config
        self._model = model
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._dim = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        self._eps = config.rms_norm_eps
        # Interleaves the halves of a head, so that a pair to be rotated is one complex number. q
        # k^T stays the same.
        self._pairs = torch.arange(self._dim).view(2, -1).T.flatten()

    def hidden(self, batch: Batch, recompute: bool = False) -> Tensor:
        """Hidden states [U, D] before the output head, of the columns of a tree that predict.
        `recompute`: layers keep only their input, and are computed again in the backward pass.
        """
        assert batch.tree is not None
        model = self._model.model
        turn = self._rotation(batch.positions_RL[0])
        compute = (
            partial(recomputed, self._layer)
            if recompute and torch.is_grad_enabled()
            else self._layer
        )
        x = model.embed_tokens(batch.ids_RL[0])
        for number, layer in enumerate(model.layers, start=1):
            x = compute(
                layer, x, turn, batch.tree, batch.columns_U if number == len(model.layers) else None
            )
        return self._normed(x, model.norm)

    def logits(self, batch: Batch, recompute: bool = False) -> Tensor:
        """Logits [U, V] of the columns of a tree that predict."""
        return F.linear(
            self.hidden(batch, recompute), self._model.lm_head.weight, self._model.lm_head.bias
        )

    def _layer(
        self, layer: Any, x: Tensor, turn: Tensor, tree: Tree, wanted: Tensor | None
    ) -> Tensor:
        """Hidden states after a layer; only those of the `wanted` columns, if these are given."""
        seen = self._attention(layer, x, turn, tree)
        if wanted is not None:
            x, seen = x[wanted], seen[wanted]
        x = x + _product(seen, layer.self_attn.o_proj)
        return x + self._feed_forward(layer, x)

    def _attention(self, layer: Any, x: Tensor, turn: Tensor, tree: Tree) -> Tensor:
        """The attention output of each column, [L, heads * dim]."""
        own, dim = layer.self_attn, self._dim
        normed = self._normed(x, layer.input_layernorm)
        heads = _product(normed, own.q_proj, own.k_proj, own.v_proj).view(len(x), -1, dim)
        q, k, v = heads.split_with_sizes([self._heads, self._kv_heads, self._kv_heads], dim=1)
        q, k = (part.unflatten(2, (2, -1)).transpose(2, 3).flatten(2) for part in (q, k))  # type: ignore[no-untyped-call]
        if hasattr(own, "q_norm"):  # Qwen3 normalises each head's queries and keys
            q, k = (
                _Norm.apply(part, self._eps) * norm.weight[self._pairs]  # type: ignore[no-untyped-call]
                for part, norm in ((q, own.q_norm), (k, own.k_norm))
            )
        q, k = _Turned.apply(q, turn), _Turned.apply(k, turn)  # type: ignore[no-untyped-call]
        return tree_attention.attend(q, k, v, tree, dim**-0.5).flatten(1)

    def _feed_forward(self, layer: Any, x: Tensor) -> Tensor:
        mlp = layer.mlp
        both = _product(self._normed(x, layer.post_attention_layernorm), mlp.gate_proj, mlp.up_proj)
        return _product(_Gated.apply(both), mlp.down_proj)  # type: ignore[no-untyped-call]

    def _normed(self, x: Tensor, norm: Any) -> Tensor:
        normed: Tensor = _Norm.apply(x, self._eps) * norm.weight  # type: ignore[no-untyped-call]
        return normed

    def _rotation(self, positions: Tensor) -> Tensor:
        """Complex factors [L, 1, dim / 2] that rotate each pair of a head at each position."""
        rotary = self._model.model.rotary_emb
        angles = positions[:, None].float() * rotary.inv_freq
        scale: float = rotary.attention_scaling
        return torch.polar(torch.full_like(angles, scale), angles).unsqueeze(1)


def base_of(module: Any) -> Any:
    """The layer under LoRA, or the module itself."""
    return getattr(module, "base_layer", module)


def adapters_of(module: Any) -> list[tuple[Tensor, Tensor]]:
    """Both weights of each LoRA adapter at work in a module, [rank, in] and, scaled, [out,
    rank].
    """
    if not hasattr(module, "lora_A") or module.disable_adapters:
        return []
    names = [name for name in module.active_adapters if name in module.lora_A]
    return [
        (module.lora_A[name].weight, module.lora_B[name].weight * module.scaling[name])
        for name in names
    ]


def _product(x: Tensor, *layers: Any) -> Tensor:
    """The outputs of several linear layers for the same x, side by side, with those of their
    adapters added.
    """
    bases, adapters = [base_of(layer) for layer in layers], [adapters_of(layer) for layer in layers]
    down = torch.cat([x.new_empty(0, x.shape[1]), *(down for own in adapters for down, _ in own)])
    nothing = [x.new_empty(base.out_features, 0) for base in bases]
    ups = [
        torch.cat([none, *(up for _, up in own)], 1)
        for none, own in zip(nothing, adapters, strict=True)
    ]
    up: Tensor = torch.block_diag(*ups)  # type: ignore[no-untyped-call]
    biases = [base.bias for base in bases if base.bias is not None]
    bias = torch.cat(biases) if len(biases) == len(bases) else None
    made: Tensor = _Product.apply(x, down, up, bias, *(base.weight for base in bases))  # type: ignore[no-untyped-call]
    return made


class _Product(torch.autograd.Function):
    """x W^T + b + (x A^T) B^T. The rows of W lie in several weights, which get a gradient where
    they are trained.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, down: Tensor, up: Tensor, bias: Tensor | None, *weights: Tensor
    ) -> Tensor:
        made = x.new_empty(len(x), len(up))
        for weight, part in zip(weights, _parts(made, weights), strict=True):
            torch.mm(x, weight.T, out=part)
        inner = x @ down.T
        ctx.save_for_backward(x, inner, down, up, *weights)
        return (made if bias is None else made.add_(bias)).addmm_(inner, up.T)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, inner, down, up, *weights = ctx.saved_tensors
        (g,), (of_x, _, _, of_bias, *trained) = gradients, ctx.needs_input_grad
        of_inner, parts = g @ up, _parts(g, weights)
        back = of_inner @ down if of_x else None
        if back is not None:
            for weight, part in zip(weights, parts, strict=True):
                back.addmm_(part, weight)
        of_weights = (
            part.T @ x if wanted else None for part, wanted in zip(parts, trained, strict=True)
        )
        return back, of_inner.T @ x, g.T @ inner, g.sum(0) if of_bias else None, *of_weights


def _parts(x: Tensor, weights: Sequence[Tensor]) -> Sequence[Tensor]:
    return x.split_with_sizes([len(weight) for weight in weights], dim=1)


class _Norm(torch.autograd.Function):
    """x / rms(x) over the last dimension, without a weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        scale: Tensor = (
            torch.linalg.vecdot(x, x).div_(x.shape[-1]).add_(eps).rsqrt_().unsqueeze_(-1)
        )
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
