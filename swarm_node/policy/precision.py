"""In what numbers the linear layers of a model multiply: the seam at which an extension puts in its own layers.

`Precision` itself is the plain one, which changes nothing. An extension registers, under `swarm_node.precision`, a
function of a model, the whole configuration and a device that changes the model and returns a subclass, or None where
its options are off. It is loaded only where its section has an option that is set.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import BaseModel
from torch import Tensor

from swarm_node.common import plugins
from swarm_node.settings import asked_for

Map = Callable[[Tensor], Tensor]  # an affine map of the last dimension


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
