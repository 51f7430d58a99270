"""The type of numbers in which a model's linear layers multiply: an interface.

`Precision` itself is plain and changes nothing. `fp8/linear.py` puts layers of its own into a model
and returns a subclass.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]  # an affine map of the last dimension


@dataclass(frozen=True)
class Precision:
    """The linear layers multiply in the type of their weights, or in autocast's."""

    # False: results differ by more than the rounding of the weights' type
    plain: ClassVar[bool] = True
    in_training: bool = False  # whether training multiplies so too, and not generation alone

    def describe(self, plain: str) -> str:
        """The type that the linear layers compute in, for people; `plain` is their type without
        this precision.
        """
        return plain

    def active(self, on: bool) -> AbstractContextManager[None]:
        """Turns the precision on or off inside. Outside it is as in training."""
        return nullcontext()

    def follow(self, optimizer: torch.optim.Optimizer) -> None:
        """Follows from now on the steps of this optimiser, which change the weights of the
        model.
        """

    def side_by_side(
        self, layers: Sequence[Any], bias: Tensor | None, dtype: torch.dtype
    ) -> Map | None:
        """One map to the outputs of all these layers, for a decoder. It computes them in `dtype`,
        as the layers do in training, and returns them in the type of its input. None for plain
        layers.
        """
        return None


PLAIN = Precision()
Use = Callable[[Any, torch.device], Precision]


def plain(model: Any, device: torch.device) -> Precision:
    """Leaves the model as it is."""
    return PLAIN
