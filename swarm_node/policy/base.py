"""The frozen base of adapters in float32, which a CPU computes in: one file beside a known model, which itself lies in
bfloat16. All nodes of a machine map the file, and so hold one copy. Each compares every weight with its model's own,
bit for bit, before it takes it from the file.
"""

import mmap
import os
from pathlib import Path

import torch
from torch import nn

from swarm_node.policy import named


def share(model: nn.Module, place: Path) -> None:
    """Takes the weights of the model in this folder, which nobody trains, from the file beside it. One process writes
    it first, where it is missing or has other weights. Where that fails the model keeps its own, and a line says so."""
    weights, file = list(model.parameters()), place.with_name(f"{place.name}.float32")
    try:
        if not _taken(weights, file):
            with named.alone(place):
                if not _taken(weights, file):  # another process may have written it meanwhile
                    _write(weights, file)
                    _taken(weights, file)
    except OSError as error:
        named.say(f"the weights of {place.name} are not shared with other nodes: {file}: {error.strerror}")


def _taken(weights: list[nn.Parameter], file: Path) -> bool:
    """Whether the file has all weights. Those that it has are taken from it, as mapped memory. A change to one of them
    would be this process's own, in a page that is copied for it."""
    sizes = [weight.numel() for weight in weights]
    if not file.exists() or file.stat().st_size != 4 * sum(sizes):
        return False
    with file.open("rb") as opened:
        memory = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    whole = True
    for weight, flat in zip(weights, torch.split(torch.frombuffer(memory, dtype=torch.float32), sizes), strict=True):
        mapped = flat.view_as(weight)
        if same := torch.equal(weight.detach().view(torch.int32), mapped.view(torch.int32)):
            weight.data = mapped
        whole &= same
    return whole


def _write(weights: list[nn.Parameter], file: Path) -> None:
    """The file appears whole, or not at all."""
    part = file.with_name(f".{file.name}.part")
    try:
        with part.open("wb") as opened:
            for weight in weights:
                opened.write(weight.detach().numpy().data)
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
