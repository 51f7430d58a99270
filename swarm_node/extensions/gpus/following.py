"""A rank other than 0 of a node: it generates and updates as rank 0 tells it, and ends when that ends."""

import os
import signal
import threading
from dataclasses import replace

import torch

from swarm_node.extensions.gpus.joined import JoinedGenerator, LearningRanks
from swarm_node.extensions.gpus.leading import Begin, compare
from swarm_node.extensions.gpus.ranks import join, when_gone
from swarm_node.extensions.gpus.settings import GpusConfig
from swarm_node.node.learner import build_trainer, initial
from swarm_node.policy.device import limit_gpu_memory
from swarm_node.policy.loading import configured_policy
from swarm_node.policy.tried import Tried
from swarm_node.settings import NodeConfig, section_of
from swarm_node.training import checkpoint
from swarm_node.training.trainer import GrpoTrainer


def follow() -> None:
    """From its start until rank 0 ends. Never returns."""
    for told in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(told, signal.SIG_IGN)  # rank 0 says when it ends: the round in progress needs us
    begun = threading.Event()
    when_gone(os.getppid(), lambda: None if begun.is_set() else os._exit(1))  # torchrun was killed
    ranks = join(LearningRanks)
    begin: Begin = ranks.told()[1]
    begun.set()
    when_gone(begin.leader, lambda: os._exit(0))
    ranks = replace(ranks, sharded=section_of(begin.config, GpusConfig).shard_optimizer)
    generator, trainer = _loaded(begin, ranks)
    compare(ranks, trainer.policy)
    while True:
        match ranks.told():
            case "generate", prompts, group_size, stream:
                generator.generate(prompts, group_size, stream)
            case "update", groups:
                trainer.update(groups)
            case ("optimizer_tensors",):
                trainer.optimizer_tensors()


def _loaded(begin: Begin, ranks: LearningRanks) -> tuple[JoinedGenerator, GrpoTrainer]:
    config = begin.config
    if config.threads:
        torch.set_num_threads(config.threads)
    if isinstance(config, NodeConfig) and torch.cuda.is_available():
        limit_gpu_memory(config.limits.memory, f"cuda:{torch.cuda.current_device()}")
    policy = configured_policy(config, begin.resume, Tried(begin.tried))
    policy.checkpointing, policy.concurrent_tokens = begin.checkpointing, begin.concurrent_tokens
    trainer = build_trainer(config, policy, initial(config, policy.tried), ranks)
    if begin.resume is not None:
        checkpoint.restore_trainer(begin.resume, trainer)
    return ranks.generator(policy, config.generation), trainer
