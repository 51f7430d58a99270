"""A bound of the GPU memory that this process may take. What goes beyond it is handled as memory that ran out."""

import torch

from swarm_node.common.errors import UserError


def limit_gpu_memory(megabytes: int, device: str) -> None:
    """0 sets no limit; without a GPU there is nothing to limit. UserError for more than there is."""
    if not megabytes or not torch.cuda.is_available() or device.startswith("cpu"):
        return
    index = torch.device(device).index or 0 if device.startswith("cuda") else 0
    total = torch.cuda.get_device_properties(index).total_memory
    if megabytes * 1_000_000 > total:
        raise UserError(f"--limits.memory {megabytes}: this GPU has {total / 1e6:.0f} megabytes")
    torch.cuda.set_per_process_memory_fraction(megabytes * 1_000_000 / total, index)
