"""Where on the cards of a machine a node's own vLLM server goes, and how much of one it may take.

vLLM asks for nine tenths of a card, and does not start where somebody else has more than the rest.
So a server on the trainer's card is told what the memory plan leaves over, and sleeps while the
node trains: then it has nothing of the card. With two cards it gets the one that the trainer has
not.
"""

import os
from dataclasses import dataclass

import torch

from swarm_node.policy.memory_plan import plan_here
from swarm_node.policy.plan import USABLE
from swarm_node.policy.policy import Policy
from swarm_node.settings import LearningConfig

LENGTH, SHARE = "--max-model-len", "--gpu-memory-utilization"  # flags of vLLM
SLEEPING = "--enable-sleep-mode"
# Tokens of a prompt that a server takes at most: it reserves memory for the longest context
LONGEST_PROMPT = 8192


@dataclass(frozen=True, slots=True)
class Placement:
    """The flags of a server, the variables of its process, and what the node has to do for it."""

    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    sleeps: bool = False  # it is told to sleep while the node trains
    longest: int = 0  # tokens of a context that it takes; 0 for the model's own


ANYWHERE = Placement()  # what a machine without cards, and a server of the user's own, has


def placed(
    policy: Policy, config: LearningConfig, device: str, given: tuple[str, ...]
) -> Placement:
    """The placement of a server for this policy.

    Args:
        device: the card that the user wants it on, as CUDA_VISIBLE_DEVICES has it; "" to choose.
        given: arguments that the user gives the server; these are not chosen here.
    """
    if policy.device.type != "cuda":
        return ANYWHERE
    own = policy.device.index or 0
    others = [k for k in range(torch.cuda.device_count()) if k != own]
    chosen = device or (str(others[0]) if others else str(own))
    shared = chosen == str(own)
    arguments, longest = list[str](), 0
    if not _has(given, LENGTH):
        longest = min(
            policy.context_length, LONGEST_PROMPT + config.generation.max_completion_length
        )
        arguments += [LENGTH, str(longest)]
    if shared and not _has(given, SHARE):
        arguments += [SHARE, f"{share(policy, config):.2f}"]
    if shared:
        arguments.append(SLEEPING)
    return Placement(tuple(arguments), (("CUDA_VISIBLE_DEVICES", _name(chosen)),), shared, longest)


def share(policy: Policy, config: LearningConfig) -> float:
    """The part of the trainer's card that a server may take while the trainer keeps its weights and
    the optimiser's state: what the plan leaves over, without a gap for either.
    """
    made = plan_here(config, policy)
    if made is None:
        return USABLE / 2
    total = torch.cuda.mem_get_info(policy.device)[1]
    kept = made.process + made.weights + made.optimizer
    return max(0.0, (USABLE * made.room - kept) / total)


def _has(given: tuple[str, ...], flag: str) -> bool:
    return any(argument.partition("=")[0] == flag for argument in given)


def _name(chosen: str) -> str:
    """The card as a new process has to name it, where this process sees only some of the cards."""
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    index = int(chosen) if chosen.isdigit() else -1
    return visible[index] if 0 <= index < len(visible) else chosen
