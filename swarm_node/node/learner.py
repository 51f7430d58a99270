"""Makes what needs torch: policy, generator, trainer, and the node that joins them.

environments.py and network.py make what needs none.
"""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

from protocol.messages import PeerId
from swarm_node.common import plugins
from swarm_node.environments.registry import build_environment, tasks_of
from swarm_node.generation.generator import BatchGenerator
from swarm_node.node.round import Node
from swarm_node.policy.loading import load_policy
from swarm_node.policy.memory_plan import fitted, plan_here
from swarm_node.policy.models import source
from swarm_node.policy.policy import Policy
from swarm_node.policy.ranks import ALONE, Ranks
from swarm_node.policy.tried import Tried
from swarm_node.rollouts.defence import LayeredDefence
from swarm_node.rollouts.interfaces import Environment, Generator, Network, Trainer
from swarm_node.rollouts.pool import RolloutPool
from swarm_node.rollouts.reuse import Reuse
from swarm_node.rollouts.scoring_ahead import ExternalScoring
from swarm_node.scoring import sandbox
from swarm_node.settings import DefenceConfig, LearningConfig, ModelConfig, NodeConfig
from swarm_node.training.trainer import GrpoTrainer

REUSE_SECONDS = 5.0  # after its first round; some announcements apart


def build_policy(config: ModelConfig, resume: Path | None = None, tried: Tried | None = None) -> Policy:
    """The policy by its name, as `models.source` has it; from a checkpoint folder with `resume`. `tried`: what is known
    to work here."""
    policy = load_policy(config.model_copy(update={"name": source(config.name)}), resume)
    policy.tried = tried or policy.tried
    return policy


def build_node(
    config: LearningConfig,
    peer_id: PeerId,
    environment: Environment,
    network: Network,
    policy: Policy | None = None,
    trainer: Trainer | None = None,
    refresh: Callable[[], bool] | None = None,
    external: ExternalScoring | None = None,
    ranks: Ranks = ALONE,
) -> Node:
    """A node, its policy loaded by `config.model` unless given. `refresh`: see `BatchGenerator`. `external` scores
    external groups; without it they are scored as they are selected. `ranks`: those that this process leads."""
    if config.threads:
        torch.set_num_threads(config.threads)
    policy = policy or build_policy(config.model)
    config, _ = fitted(config, policy)
    return Node(
        peer_id=peer_id,
        seed=config.seed,
        environment=environment,
        generator=build_generator(config, policy, refresh, ranks),
        trainer=trainer or build_trainer(config, policy, initial(config, policy.tried), ranks),
        network=network,
        pool=RolloutPool(peer_id, config.pool),
        reuse=Reuse(config.round.external_rounds, REUSE_SECONDS),
        sampler=plugins.load("samplers", config.round.external_sampler)(),
        defence=build_defence(config.defence),
        config=config.round,
        group_size=config.generation.num_generations,
        clock=perf_counter,
        external=external,
    )


def build_generator(
    config: LearningConfig, policy: Policy, refresh: Callable[[], bool] | None = None, ranks: Ranks = ALONE
) -> Generator:
    """A generator in this process, or one that uses a vLLM server if the configuration names one, or wants one."""
    if config.generation.vllm_url or config.generation.vllm == "auto":
        server: Generator = plugins.load("generators", "vllm")(policy, config.generation)
        return server
    return BatchGenerator(policy, config.generation, refresh, ranks)


def build_defence(config: DefenceConfig) -> LayeredDefence:
    """The layers in the order in which the configuration names them."""
    return LayeredDefence([plugins.load("defences", name)(config) for name in config.use])


def build_trainer(
    config: LearningConfig, policy: Policy, reference: Policy | None = None, ranks: Ranks = ALONE
) -> GrpoTrainer:
    """The trainer with the objective and the advantages that the configuration names."""
    training = config.training
    return GrpoTrainer(
        policy,
        training,
        config.generation,
        reference,
        objective=plugins.load("objectives", training.objective),
        advantages=plugins.load("advantages", training.scale_rewards),
        ranks=ranks,
    )


def initial(config: LearningConfig, tried: Tried) -> Policy | None:
    """The initial policy for a KL penalty, also after a resume. LoRA needs none: its base is that policy."""
    return build_policy(config.model, tried=tried) if config.training.beta and not config.model.lora.r else None


def examine(config: NodeConfig) -> list[str]:
    """What this configuration means on this machine, one line each. UserError if a node could not start."""
    build_environment(config).close()
    policy = build_policy(config.model)
    plan = plan_here(config, policy, config.limits)
    generator = BatchGenerator(policy, config.generation)
    trainer = build_trainer(config, policy)
    total = sum(p.numel() for p in policy.model.parameters())
    trained = sum(p.numel() for p in policy.model.parameters() if p.requires_grad)
    tasks = tasks_of(config.environment)
    refused = "" if config.training.layout == "padded" else " (this model cannot take packed ones)"
    rows = trainer.packing.value if trainer.packing else f"padded{refused}"
    return [
        f"model: {config.model.name}, {total:,} parameters, {trained:,} of them trained, on {policy.device}",
        f"linear layers: {policy.arithmetic}",
        f"decoder: {generator.decoder_name}; training rows: {rows}",
        f"context: {policy.context_length} tokens; chat template: {'yes' if policy.tokenizer.chat_template else 'no'}",
        f"tasks: {', '.join(tasks)}",
        sandbox.describe(sandbox.layers()),
        *(plan.lines() if plan else ["memory: not known for this device or model"]),
    ]
