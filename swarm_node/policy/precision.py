"""In what numbers the linear layers of a model multiply: the seam at which an extension puts in its own layers.

`Precision` itself is the plain one, which changes nothing. An extension registers, under `swarm_node.precision`, a
function of a model, the whole configuration and a device that changes the model and returns a subclass, or None where
its options are off. It is loaded only where its section has an option that is set.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from math import inf
from time import process_time
from typing import Any, ClassVar

import torch
from pydantic import BaseModel
from torch import Tensor
from torch.nn.functional import linear

from swarm_node.common import plugins
from swarm_node.settings import asked_for

Map = Callable[[Tensor], Tensor]  # an affine map of the last dimension
NARROW = 256  # hidden size of models that take as long for other work as for products
GAIN = 1.2  # what bfloat16 must gain in a product on a CPU: there is other work


@dataclass(frozen=True)
class Precision:
    """The linear layers multiply in the type of their weights, or in autocast's."""

    plain: ClassVar[bool] = True  # False: results differ by more than the rounding of the weights' type
    in_training: bool = False  # whether training multiplies so too, and not generation alone

    def describe(self, plain: str) -> str:
        """What the linear layers compute in, for people; `plain` is the type that they have without it."""
        return plain

    def active(self, on: bool) -> AbstractContextManager[None]:
        """Turns it on or off inside. Outside it is as training has it."""
        return nullcontext()

    def follow(self, optimizer: torch.optim.Optimizer) -> None:
        """Hears from now on of the steps of this optimiser, which changes the weights of the model."""

    def side_by_side(self, layers: Sequence[Any], bias: Tensor | None, dtype: torch.dtype) -> Map | None:
        """One map to the outputs of all these layers, for a decoder: computed in `dtype` as the layers compute them in
        training, put out in the type of its input. None where they are plain layers."""
        return None


PLAIN = Precision()
Use = Callable[[Any, torch.device], Precision]


def plain(model: Any, device: torch.device) -> Precision:
    """Leaves the model as it is."""
    return PLAIN


def precision_of(config: BaseModel) -> Use:
    """What puts the precision of an extension that the configuration asks for to work in a model."""

    def use(model: Any, device: torch.device) -> Precision:
        for name in asked_for(config, "precision"):
            made: Precision | None = plugins.load("precision", name)(model, config, device)
            if made is not None:
                return made
        return PLAIN

    return use


def fast_bfloat16(device: torch.device, hidden: int) -> bool:
    """Whether a model of this hidden size multiplies faster in bfloat16. A CPU is tried."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return device.type == "cpu" and hidden >= NARROW and gain(hidden) > GAIN


@cache
def gain(hidden: int) -> float:
    """CPU seconds of a feed-forward product of 256 tokens in float32 over those in bfloat16, the least of five each; 0
    where a CPU has no such products."""
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)  # private to torch
    if supported is None or not supported():
        return 0.0
    least = {torch.float32: inf, torch.bfloat16: inf}
    for dtype in (*least,) * 5:
        x, weight = torch.ones(256, hidden), torch.ones(4 * hidden, hidden, dtype=dtype)
        start = process_time()
        linear(x.to(dtype), weight)
        least[dtype] = min(least[dtype], process_time() - start)
    return least[torch.float32] / least[torch.bfloat16]
