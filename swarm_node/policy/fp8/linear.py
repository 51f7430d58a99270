"""Linear layers whose three products run in FP8, and the one place where a model gets them.

| product | left operand | right operand |
|---|---|---|
| forward, Y = X W^T | X, 1 x 128 along the input | W, 128 x 128 |
| gradient of X, dX = dY W | dY, 1 x 128 along the output | W, 128 x 128 |
| gradient of W, dW = dY^T X | dY^T, 1 x 128 along tokens | X^T, 1 x 128 along tokens |

One summary of Jet-RL pairs the last two the other way round; only dX has W in it, so this is the
table. Embeddings, output head, norms, attention, biases and what travels between layers stay as
they are. X is kept in FP8 for the backward pass. Weights are quantised again once they have
changed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swarm_node.common.errors import UserError
from swarm_node.policy.fp8.kernels import Kernel, choose, reference
from swarm_node.policy.fp8.quantise import BLOCK, Quantised
from swarm_node.policy.precision import Map, Precision
from swarm_node.settings import EvaluationConfig, LearningConfig


@dataclass(frozen=True, slots=True)
class Weight:
    """A layer's quantised weight, as right operand of the forward product and of the gradient of
    X.
    """

    forwards: Quantised  # [out, in]
    backwards: Quantised  # [in, out]
    made_from: tuple[int, int]  # the memory of the weight, and how often it had been written to


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, quantised: Weight, kernel: Kernel, dtype: torch.dtype
    ) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        ctx.quantised, ctx.kernel, ctx.kinds = quantised, kernel, (x.dtype, weight.dtype)
        if ctx.needs_input_grad[1]:
            kept = kernel.quantise(tokens.t())
            ctx.save_for_backward(kept.values, kept.scales)
        y = kernel.product(kernel.quantise(tokens), quantised.forwards, dtype)
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dy = gradients[0].reshape(-1, gradients[0].shape[-1])
        kernel, dx, dw = ctx.kernel, None, None
        if ctx.needs_input_grad[0]:
            dx = kernel.product(kernel.quantise(dy), ctx.quantised.backwards, ctx.kinds[0])
            dx = dx.view(*gradients[0].shape[:-1], -1)
        if ctx.needs_input_grad[1]:
            values, scales = ctx.saved_tensors
            kept = Quantised(values, scales, side=1)
            dw = kernel.product(kernel.quantise(dy.t()), kept, ctx.kinds[1])
        return dx, dw, None, None, None


class Fp8Linear(nn.Linear):
    """Shares weight and bias of the layer it stands in for. Computes in FP8 while `active`."""

    def __init__(self, layer: nn.Linear, kernel: Kernel, active: bool) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self.kernel, self.active = kernel, active
        self._quantised: Weight | None = None

    def quantised(self) -> Weight:
        """The present weight, quantised; made again after a copy into the weight, and after
        `forget`.
        """
        present = self.weight.data_ptr(), self.weight._version
        if self._quantised is None or self._quantised.made_from != present:
            # Generation may ask first, but training uses it too
            with torch.inference_mode(False), torch.no_grad():
                forwards = self.kernel.quantise(self.weight.detach(), BLOCK)
                self._quantised = Weight(forwards, forwards.transposed(), present)
        return self._quantised

    def forget(self) -> None:
        """Drops the quantised weight, after a change that torch does not count, as by its fused
        optimisers.
        """
        self._quantised = None

    def forward(self, x: Tensor) -> Tensor:
        """The FP8 product while `active`, else the plain one. Any leading dimensions."""
        if not self.active:
            return super().forward(x)
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        with torch.autocast(kind, enabled=False):
            y = self._product(x, dtype)
            return y if self.bias is None else y + self.bias.to(dtype)

    def _product(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        if torch.is_grad_enabled():
            y: Tensor = _Products.apply(x, self.weight, self.quantised(), self.kernel, dtype)  # type: ignore[no-untyped-call]
            return y
        tokens = self.kernel.quantise(x.reshape(-1, x.shape[-1]))
        return self.kernel.product(tokens, self.quantised().forwards, dtype).view(*x.shape[:-1], -1)


@dataclass(frozen=True, slots=True)
class Fp8Map:
    """An affine map in FP8: the products of several layers' training forward, side by side."""

    parts: tuple[Quantised, ...]
    bias: Tensor | None
    kernel: Kernel
    dense: Tensor | None  # the parts' float32 values, if products use these
    dtype: torch.dtype  # of the product, as in training

    def __call__(self, x: Tensor) -> Tensor:
        tokens = self.kernel.quantise(x)
        if self.dense is not None:
            y = F.linear(tokens.exact, self.dense).to(self.dtype)
        else:
            y = torch.cat(
                [self.kernel.product(tokens, part, self.dtype) for part in self.parts], dim=-1
            )
        return (y if self.bias is None else y + self.bias.to(self.dtype)).to(x.dtype)


@dataclass(frozen=True, kw_only=True)
class Fp8(Precision):
    """The FP8 layers of one model. If `in_training` is off, only generation uses them: the mixed
    flow.
    """

    plain: ClassVar[bool] = False
    layers: tuple[Fp8Linear, ...]
    kernel: Kernel

    def describe(self, plain: str) -> str:
        """See Precision."""
        where = (
            "in writing and training" if self.in_training else f"in writing, {plain} in training"
        )
        return f"FP8 {where} ({self.kernel.name})"

    @contextmanager
    def active(self, on: bool) -> Iterator[None]:
        """See Precision."""
        self._set(on)
        try:
            yield
        finally:
            self._set(self.in_training)

    def follow(self, optimizer: torch.optim.Optimizer) -> None:
        """See Precision."""
        optimizer.register_step_post_hook(lambda *_: self._forget())

    def side_by_side(
        self, layers: Sequence[Any], bias: Tensor | None, dtype: torch.dtype
    ) -> Map | None:
        """See Precision."""
        fp8 = [layer for layer in layers if isinstance(layer, Fp8Linear)]
        if len(fp8) < len(layers):
            return None
        parts, kernel = tuple(layer.quantised().forwards for layer in fp8), fp8[0].kernel
        dense = torch.cat([part.exact for part in parts]) if kernel.product is reference else None
        return Fp8Map(parts, bias, kernel, dense, dtype)

    def _forget(self) -> None:
        for layer in self.layers:
            layer.forget()

    def _set(self, on: bool) -> None:
        for layer in self.layers:
            layer.active = on


def swap_linears(model: Any, kernel: Kernel, in_training: bool) -> Fp8:
    """Put an Fp8Linear in the place of every linear layer of a Hugging Face causal LM but its
    output head.

    Raises:
        UserError: it has no such layer.
    """
    head = model.get_output_embeddings()
    found = [
        (name, m) for name, m in model.named_modules() if type(m) is nn.Linear and m is not head
    ]
    if not found:
        raise UserError(
            f"{type(model).__name__} has no linear layer that could compute in FP8: use "
            "--fp8.precision bf16"
        )
    layers = []
    for name, layer in found:
        layers.append(Fp8Linear(layer, kernel, in_training))
        model.set_submodule(name, layers[-1])
    return Fp8(layers=tuple(layers), in_training=in_training, kernel=kernel)


def use_fp8(config: LearningConfig | EvaluationConfig, model: Any, device: torch.device) -> Fp8:
    """Puts FP8 into `model`, as the configuration says."""
    precision = config.fp8.precision
    if config.model.quantization != "none":
        raise UserError("model.quantization needs fp8.precision bf16: remove one of the two")
    return swap_linears(model, choose(device), precision == "fp8")
