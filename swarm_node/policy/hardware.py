"""The device that a policy computes on: found by its name, made the current one, and what it can
do.

CUDA has a current device in each thread. torch puts new streams and recordings of kernels on it,
whatever device the tensors are on, so `choose_device` makes the policy's device the current one.
"""

from functools import cache

import torch

from swarm_node.common.cards import Build, cards, why_not
from swarm_node.common.errors import UserError, first_line
from swarm_node.policy import named

AMPERE = (8, 0)  # the first cards that multiply bfloat16; older ones compute it by float32


def choose_device(name: str) -> torch.device:
    """The device of this name, which is now this thread's current one; `auto` takes CUDA where
    there is one, and says why where there is a card that it cannot use. UserError where the device
    cannot be used.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        say_unusable()
        return torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        # That text lists every device
        why = "" if "device type at start" in str(error) else f" ({first_line(error)})"
        card = unusable() if name.startswith("cuda") else ""
        remedy = card or "try --model.device auto, cpu, cuda or mps"
        raise UserError(f"device {name!r} cannot be used{why}: {remedy}") from error
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    return device


def unusable() -> str:
    """Why torch cannot use the card that is here, and what to do; "" where it can, or where there
    is not a card.
    """
    if torch.cuda.is_available():
        return ""
    build = Build(torch.__version__, torch.version.cuda or "", bool(torch.version.hip))
    return why_not(cards(), build)


@cache
def say_unusable() -> None:
    """Says once that the CPU is used though there is a card, and why."""
    if why := unusable():
        named.say(f"the CPU is used: {why}")


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether this is a card that multiplies bfloat16 by itself. `torch.cuda.is_bf16_supported`
    also says yes where it is emulated, and asks the current device.
    """
    if device.type != "cuda":
        return False
    return bool(torch.version.hip) or torch.cuda.get_device_capability(device) >= AMPERE


def uuid_of(device: torch.device) -> str:
    """The name of a card of NVIDIA by which its driver knows it, whatever cards this process may
    see; "" for another device.
    """
    if device.type != "cuda" or torch.version.hip:
        return ""
    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"


@cache
def exact_device(device: torch.device) -> torch.device:
    """Where numbers of this device are computed in float64: there, or on the CPU where the device
    has none, found out by trying. Apple's have none.
    """
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return torch.device("cpu")
    return device
