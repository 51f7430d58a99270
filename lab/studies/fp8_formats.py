"""Number formats coarser than FP8, emulated for the study of what breaks first (`lab.studies.fp8_learning`).

Six and four bits are formats of the OCP Microscaling specification 1.0; the one of five bits is in no specification.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from swarm_node.extensions.fp8.quantise import BLOCKS, Recipe


@dataclass(frozen=True, slots=True)
class FewBits(Recipe):
    """A sign, an exponent and a mantissa, without infinities or NaN. Values stay float32."""

    exponent: int = 2  # bits
    mantissa: int = 1  # bits after the point

    @property
    def largest(self) -> float:
        whole: float = 2.0 ** (2 ** (self.exponent - 1))
        return (2.0 - 2.0**-self.mantissa) * whole

    def rounded(self, x: Tensor) -> Tensor:
        """Halves go to the even number, as where torch rounds to FP8."""
        smallest = 2 - 2 ** (self.exponent - 1)  # exponent of the smallest normal number; below it steps are equal
        power = (torch.frexp(x).exponent - 1).clamp_min(smallest)
        step = torch.ldexp(torch.ones_like(x), power - self.mantissa)
        return torch.round(x / step) * step


FORMATS: Mapping[str, Recipe] = {
    "E4M3": BLOCKS,
    "E4M3, published scales": Recipe(powers=False),
    # One scale per token of activations, one per matrix of weights (of the starters).
    "E5M2, whole": Recipe(torch.float8_e5m2, group=0, side=1024),
    "E2M3": FewBits(exponent=2, mantissa=3),  # six bits
    "E3M1": FewBits(exponent=3, mantissa=1),  # five
    "E2M1": FewBits(exponent=2, mantissa=1),  # four
}
