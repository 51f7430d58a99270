"""The memory plan of a configuration: on the device at hand, or on a card of which only the size is known."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

import psutil
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from swarm_node.common.errors import UserError
from swarm_node.policy import plan as plans
from swarm_node.policy.memory import keep_nothing_back
from swarm_node.policy.models import source
from swarm_node.policy.plan import NF4_BYTES, Arithmetic, Plan
from swarm_node.policy.policy import Packing, Policy
from swarm_node.policy.ranks import count_ranks
from swarm_node.settings import LearningConfig, LimitsConfig

C = TypeVar("C", bound=LearningConfig)
UNLIMITED = LimitsConfig()
SIZE = re.compile(r"^(\d+(?:\.\d+)?) ?([GM])i?B?$", re.IGNORECASE)


def fitted(config: C, policy: Policy, limits: LimitsConfig = UNLIMITED) -> tuple[C, Plan | None]:
    """The configuration with what memory leaves to be chosen, and the plan behind it; none for a device, or a model,
    of which too little is known."""
    made = plan_here(config, policy, limits)
    if made is None:
        return config, None
    if made.choice.checkpointing:
        keep_nothing_back()
    return plans.applied(config, made), made


def plan_here(config: LearningConfig, policy: Policy, limits: LimitsConfig = UNLIMITED) -> Plan | None:
    """Of a policy that is loaded, on its device."""
    room = _room(policy.device, limits)
    if room is None:
        return None
    model = policy.model
    adapters = sum(p.numel() for p in model.parameters() if p.requires_grad) if config.model.lora.r else 0
    weight = NF4_BYTES if config.model.quantization == "nf4" else model.dtype.itemsize
    how = Arithmetic(
        policy.device.type,
        weight,
        4 if config.model.lora.r else model.dtype.itemsize,
        (policy.autocast_dtype or model.dtype).itemsize,
        config.training.layout != "padded" and policy.packing is Packing.NATIVE,
        count_ranks() if config.training.shard_optimizer else 1,
    )
    try:
        shape = plans.shape_of(model.config, sum(_sizes(model)) - adapters, adapters)
    except (AttributeError, TypeError):  # a model without attention heads, or with other names for them
        return None
    return plans.plan(shape, how, config, room)


def plan_for(config: LearningConfig, size: str) -> Plan:
    """Of a CUDA card with so much memory, such as 8GB, that has bfloat16. Reads the model's shape, and no weights."""
    known = SIZE.match(size.strip())
    if known is None:
        raise UserError(f"memory {size!r} is no size: give one such as 8GB")
    name = config.model.name
    try:
        revision = config.model.revision or "main"
        found = AutoConfig.from_pretrained(source(name), revision=revision, trust_remote_code=False)
    except Exception as error:  # each library underneath raises types of its own
        raise UserError(f"cannot read the shape of model {name!r}: {str(error).splitlines()[0][:200]}") from error
    return plan_of(config, found, float(known[1]) * (plans.GIB if known[2].upper() == "G" else plans.MIB))


def plan_of(config: LearningConfig, found: Any, room: float) -> Plan:
    """The same of a transformers configuration, in bytes."""
    lora = config.model.lora.r > 0
    kind = config.model.dtype
    weight = 4 if kind == "float32" or (kind == "auto" and not lora) else 2
    how = Arithmetic(
        "cuda",
        NF4_BYTES if config.model.quantization == "nf4" else weight,
        4 if lora else weight,
        4 if config.model.autocast == "off" and weight == 4 else 2,
    )
    total, linear = _counted(found.to_json_string())
    targets = config.model.lora.target_modules
    adapted = (inputs + outputs for name, inputs, outputs in linear if not targets or name in targets)
    shape = plans.shape_of(found, total, config.model.lora.r * sum(adapted))
    return plans.plan(shape, how, config, room)


@lru_cache(maxsize=8)
def _counted(described: str) -> tuple[int, list[tuple[str, int, int]]]:
    """Parameters of a model so described; name, inputs and outputs of each of its linear layers but the head."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**json.loads(described)))
    head = model.get_output_embeddings()
    linear = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear) and m is not head]
    shapes = [(name.rpartition(".")[2], m.in_features, m.out_features) for name, m in linear]
    return sum(_sizes(model)), shapes


def _sizes(model: Any) -> Iterator[int]:
    """Of its parameters; one of 4 bits holds two numbers in a byte."""
    for p in model.parameters():
        yield p.numel() * (2 if p.dtype == torch.uint8 else 1)


def _room(device: torch.device, limits: LimitsConfig) -> float | None:
    """Bytes that the node may take of the device."""
    if device.type == "cuda":
        there, limit = torch.cuda.mem_get_info(device)[1], limits.gpu_memory
    elif device.type == "cpu":
        there, limit = psutil.virtual_memory().available + psutil.Process().memory_info().rss, limits.memory
    else:
        return None
    return float(min(there, limit * 1_000_000) if limit else there)
