"""The memory plan of a configuration: on the device at hand, or on a card of which only the size is
known.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import psutil
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from swarm_node.common import memory
from swarm_node.common.errors import UserError, first_line
from swarm_node.policy import plan as plans
from swarm_node.policy.bounds import check_config, check_folder
from swarm_node.policy.device import keep_freed
from swarm_node.policy.llama.families import is_known
from swarm_node.policy.llama.llama_decoder import shares
from swarm_node.policy.named import source
from swarm_node.policy.plan import NF4_BYTES, Arithmetic, Plan
from swarm_node.policy.policy import Packing, Policy
from swarm_node.settings import LearningConfig, LimitsConfig
from swarm_node.settings.programs import SIZE

C = TypeVar("C", bound=LearningConfig)
UNLIMITED = LimitsConfig()


def fitted(
    config: C, policy: Policy, limits: LimitsConfig = UNLIMITED, turns: int = 1
) -> tuple[C, Plan | None]:
    """The configuration with the options that fit memory, and the plan behind them; no plan if too
    little is known of the device or the model. Tells the policy how to save memory, where that is
    needed.
    """
    made = plan_here(config, policy, limits, turns)
    policy.frugal = (
        policy.device.type == "cpu"
        and config.model.lora_rank > 0
        and not (made and made.is_little())
    )
    if made is None:
        return config, None
    policy.keeps_decoder = not policy.frugal and (
        made.keeps_generation if shares(policy.device) else made.copy > 0 and made.keeps_copy
    )
    policy.checkpointing |= made.choice.checkpointing
    policy.concurrent_tokens = policy.concurrent_tokens or made.choice.concurrent
    keep_freed(plenty=not (policy.checkpointing or policy.frugal) and made.total <= made.room / 2)
    return plans.applied(config, made), made


def plan_here(
    config: LearningConfig, policy: Policy, limits: LimitsConfig = UNLIMITED, turns: int = 1
) -> Plan | None:
    """The plan of a loaded policy on its device; None as in `fitted`. `turns`: of a question, at
    most.
    """
    room = room_of(policy.device, limits)
    if room is None:
        return None
    model = policy.model
    adapters = 0
    if config.model.lora_rank:
        adapters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    weight = NF4_BYTES if config.model.quantization == "nf4" else model.dtype.itemsize
    how = Arithmetic(
        policy.device.type,
        weight,
        4 if config.model.lora_rank else model.dtype.itemsize,
        (policy.autocast_dtype or model.dtype).itemsize,
        policy.packing is Packing.NATIVE,
        # A base that is mapped from a file leaves memory while the copy is there
        merges=not (shares(policy.device) or policy.four_bits)
        and policy.base is None
        and is_known(model.config),
    )
    try:
        shape = plans.shape_of(model.config, sum(_sizes(model)) - adapters, adapters, turns)
    except (AttributeError, TypeError):
        # A model without attention heads, or with other names for them
        return None
    return plans.plan(shape, how, config, room)


def plan_for(config: LearningConfig, size: str, turns: int = 1) -> Plan:
    """The plan for a CUDA card of this size, such as 8GB, with bfloat16. Reads the model's shape,
    not its weights.
    """
    known = SIZE.match(size)
    assert known is not None, size
    name = config.model.name
    try:
        revision, place = config.model.revision or "main", source(name)
        if Path(place).is_dir():
            check_folder(Path(place))
        else:
            from swarm_node.common.http import obey_in_hub  # now: slow to import

            obey_in_hub()
            check_config(PretrainedConfig.get_config_dict(place, revision=revision)[0])
        found = AutoConfig.from_pretrained(place, revision=revision, trust_remote_code=False)
    except Exception as error:  # each library underneath raises types of its own
        raise UserError(
            f"cannot read the shape of model {name!r}: {first_line(error)}; give its folder, or "
            "its name while the hub is in reach"
        ) from error
    return plan_of(
        config,
        found,
        float(known[1]) * (plans.GIB if known[2].upper() == "G" else plans.MIB),
        turns,
    )


def plan_of(config: LearningConfig, found: Any, room: float, turns: int = 1) -> Plan:
    """The plan for the model of a transformers configuration; `room` is in bytes."""
    lora = config.model.lora_rank > 0
    kind = config.model.dtype
    weight = 4 if kind == "float32" or (kind == "auto" and not lora) else 2
    how = Arithmetic(
        "cuda",
        NF4_BYTES if config.model.quantization == "nf4" else weight,
        4 if lora else weight,
        4 if kind == "float32" else 2,
    )
    try:
        total, linear = _counted(found.to_json_string())
    except Exception as error:  # whatever a model's code raises at such sizes
        raise UserError(
            f"cannot read the shape of model {config.model.name!r}: {first_line(error)}"
        ) from error
    adapted = (inputs + outputs for inputs, outputs in linear)
    shape = plans.shape_of(found, total, config.model.lora_rank * sum(adapted), turns)
    return plans.plan(shape, how, config, room)


def parameters_of(found: Any) -> int:
    """Parameters of the model that a transformers configuration describes."""
    return _counted(found.to_json_string())[0]


@lru_cache(maxsize=8)
def _counted(described: str) -> tuple[int, list[tuple[int, int]]]:
    """Parameters of the model that this JSON describes; inputs and outputs of each linear layer but
    the head.
    """
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**json.loads(described)))
    head = model.get_output_embeddings()
    linear = [
        (m.in_features, m.out_features)
        for m in model.modules()
        if isinstance(m, nn.Linear) and m is not head
    ]
    return sum(_sizes(model)), linear


def _sizes(model: Any) -> Iterator[int]:
    """The numbers in each of its parameters; a parameter in 4 bits holds two in a byte."""
    for p in model.parameters():
        yield p.numel() * (2 if p.dtype == torch.uint8 else 1)


def room_of(device: torch.device, limits: LimitsConfig) -> float | None:
    """Bytes that the node may take of the device."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        # What this process has is its own: tensors, and CUDA itself
        own = torch.cuda.memory_reserved(device) + plans.PROCESS["cuda"]
        there = float(min(total, free + own))
    elif device.type == "cpu":
        there = float(memory.available() + psutil.Process().memory_info().rss)
    else:
        return None
    return min(there, limits.memory * 1e6) if limits.memory else there
