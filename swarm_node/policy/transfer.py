"""What crosses between host and device: from pinned memory without waiting, and back in one place, where it waits."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def to_device(values: Sequence[Any] | Tensor, device: torch.device) -> Tensor:
    """A tensor of these values. To a GPU the copy is queued, not waited for."""
    tensor = values if isinstance(values, Tensor) else torch.tensor(values)
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def on_host(tensor: Tensor) -> Tensor:
    """The values, on the CPU: waits until a device has computed them. While tokens are generated nothing else does."""
    return tensor.cpu()


def pin(memory: Tensor) -> bool:
    """Lock shared memory into place, so that a GPU reads and writes it by itself. Whether that worked: copies are right
    without, and slower."""
    size = memory.numel() * memory.element_size()
    done: int = torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), size, 0)  # type: ignore[no-untyped-call]
    return int(done) == 0


def finish(device: torch.device) -> None:
    """Wait for copies that were queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
