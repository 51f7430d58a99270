"""A hand-written training forward for Llama- and Qwen-shaped models in float32 on a CPU, in fewer
passes over memory.

It saves work: no weight is copied, LoRA adapters with the same input share the product with their
A, frozen weights get no gradient, rotary embedding is one complex product, and the last layer keeps
only the columns that predict a token. Products are those of policy/products.py. Gradients go to the
model's parameters.

`Policy.packing` compares its logits with the model's before use. Other adapters, FP8, other
devices, types and architectures keep the library's forward.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swarm_node.policy import tree_attention
from swarm_node.policy.batch import Batch
from swarm_node.policy.llama.families import require_known
from swarm_node.policy.products import times
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
        (turned,) = _products(seen, layer.self_attn.o_proj)
        x = x + turned
        return x + self._feed_forward(layer, x)

    def _attention(self, layer: Any, x: Tensor, turn: Tensor, tree: Tree) -> Tensor:
        """The attention output of each column, [L, heads * dim]."""
        own, dim = layer.self_attn, self._dim
        normed = self._normed(x, layer.input_layernorm)
        projected = _products(normed, own.q_proj, own.k_proj, own.v_proj)
        q, k, v = (part.view(len(x), -1, dim) for part in projected)
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
        normed = self._normed(x, layer.post_attention_layernorm)
        gate, up = _products(normed, mlp.gate_proj, mlp.up_proj)
        (made,) = _products(_Gated.apply(gate, up), mlp.down_proj)  # type: ignore[no-untyped-call]
        return made

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


def _products(x: Tensor, *layers: Any) -> tuple[Tensor, ...]:
    """The outputs of several linear layers for the same x, with those of their adapters added."""
    bases = [base_of(layer) for layer in layers]
    adapters = [adapters_of(layer) for layer in layers]
    downs = [down for own in adapters for down, _ in own]
    ups = [_side_by_side([up for _, up in own]) for own in adapters]
    made: tuple[Tensor, ...] = _AdaptedProducts.apply(  # type: ignore[no-untyped-call]
        x,
        torch.cat(downs) if downs else None,
        *ups,
        *(base.bias for base in bases),
        *(base.weight for base in bases),
    )
    return made


def _side_by_side(ups: Sequence[Tensor]) -> Tensor | None:
    """The adapters of one layer as one matrix [out, ranks]; None where it has no adapter."""
    if len(ups) < 2:
        return ups[0] if ups else None
    return torch.cat(list(ups), 1)


class _AdaptedProducts(torch.autograd.Function):
    """x W^T + b + (x A^T) B^T for each of several layers. Their A stand below one another, so that
    x A^T is one product for all. Arguments after `down`, which holds the A: the B of each layer,
    the biases, and the weights, which get a gradient where they are trained.

    Besides its inputs, x A^T alone is kept for the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, down: Tensor | None, *parameters: Tensor | None
    ) -> tuple[Tensor, ...]:
        ups, biases, weights = _in_three(parameters)
        inner = None if down is None else x @ down.T
        ctx.ranks = [0 if up is None else up.shape[1] for up in ups]
        ctx.save_for_backward(x, inner, down, *ups, *weights)
        made = [times(x, weight) for weight in weights if weight is not None]
        for out, bias in zip(made, biases, strict=True):
            if bias is not None:
                out.add_(bias)
        if inner is not None:
            for out, up, part in zip(
                made, ups, inner.split_with_sizes(ctx.ranks, dim=1), strict=True
            ):
                if up is not None:
                    out.addmm_(part, up.T)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, inner, down, *rest = ctx.saved_tensors
        count = len(rest) // 2
        ups, weights = rest[:count], rest[count:]
        of_x_wanted, _, *wanted = ctx.needs_input_grad
        _, of_biases_wanted, of_weights_wanted = _in_three(wanted)
        of_x: Tensor | None = None
        if of_x_wanted:
            for gradient, weight in zip(gradients, weights, strict=True):
                part = times(gradient, weight.T)
                of_x = part if of_x is None else of_x.add_(part)
        of_down, of_ups = None, [None] * count
        if inner is not None:
            of_inner = torch.empty_like(inner)
            of_down, of_ups = _of_adapters(gradients, ups, inner, of_inner, x, ctx.ranks)
            if of_x is not None:
                of_x.addmm_(of_inner, down)
        of_biases = [
            gradient.sum(0) if trained else None
            for gradient, trained in zip(gradients, of_biases_wanted, strict=True)
        ]
        of_weights = [
            times(gradient.T, x.T) if trained else None
            for gradient, trained in zip(gradients, of_weights_wanted, strict=True)
        ]
        return of_x, of_down, *of_ups, *of_biases, *of_weights


T = TypeVar("T")


def _in_three(parameters: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
    """What stands one after the other for the same layers."""
    count = len(parameters) // 3
    return parameters[:count], parameters[count : 2 * count], parameters[2 * count :]


def _of_adapters(
    gradients: Sequence[Tensor],
    ups: Sequence[Tensor | None],
    inner: Tensor,
    of_inner: Tensor,
    x: Tensor,
    ranks: list[int],
) -> tuple[Tensor, list[Any]]:
    """The gradients of A and of each B, from those of the outputs. Writes the one of x A^T into
    `of_inner`.
    """
    of_ups: list[Tensor | None] = []
    parts = zip(
        inner.split_with_sizes(ranks, dim=1), of_inner.split_with_sizes(ranks, dim=1), strict=True
    )
    for gradient, up, (part, of_part) in zip(gradients, ups, parts, strict=True):
        if up is None:
            of_ups.append(None)
            continue
        torch.mm(gradient, up, out=of_part)
        # Thin times wide is faster than wide times thin
        of_ups.append(times(part.T, gradient.T).T)
    return times(of_inner.T, x.T), of_ups


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
    """silu(gate) * up."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        opened = F.silu(gate)
        ctx.save_for_backward(gate, up, opened)
        return opened * up

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        gate, up, opened = ctx.saved_tensors
        of_gate = gradients[0] * up
        torch.ops.aten.silu_backward(of_gate, gate, grad_input=of_gate)
        return of_gate, gradients[0] * opened
