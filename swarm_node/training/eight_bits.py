"""AdamW in 8 bits whose step takes little memory on a CPU. Needs bitsandbytes, an extra."""

from typing import Any

import torch
from bitsandbytes.optim import AdamW8bit
from torch import nn

BLOCK = 256  # numbers that share a scale, in bitsandbytes
PIECE = 2**14 * BLOCK  # numbers stepped at a time
PARTS = ("state1", "state2")
SCALES = ("absmax1", "absmax2")


class PiecewiseAdamW8bit(AdamW8bit):  # type: ignore[misc]
    """On a CPU bitsandbytes widens a parameter's state to float32, and makes several tensors of
    that size on the way: five times an embedding of 0.5 GB. This class steps long parameters piece
    by piece, which gives the same bits.

    On CUDA one kernel takes the step without such tensors, and parameters stay whole.
    """

    @torch.no_grad()
    def update_step(self, group: dict[str, Any], p: nn.Parameter, gindex: int, pindex: int) -> None:
        """Steps one parameter by its gradient, state and options. bitsandbytes calls it."""
        state = self.state[p]
        assert p.grad is not None  # bitsandbytes asks for no other
        whole = p.device.type != "cpu" or p.numel() <= PIECE or not p.is_contiguous()
        if whole or state["state1"].dtype != torch.uint8:
            super().update_step(group, p, gindex, pindex)
            return
        flat = {name: state[name].view(-1) for name in PARTS}
        weights, gradient = p.data.view(-1), p.grad.contiguous().view(-1)
        for start in range(0, p.numel(), PIECE):
            end = start + PIECE
            piece = nn.Parameter(weights[start:end], requires_grad=False)
            piece.grad = gradient[start:end]
            parts = {name: numbers[start:end] for name, numbers in flat.items()}
            scales = {name: state[name][start // BLOCK : end // BLOCK] for name in SCALES}
            self.state[piece] = {**state, **parts, **scales}
            try:
                super().update_step(group, piece, gindex, pindex)
            finally:
                del self.state[piece]
        state["step"] += 1
