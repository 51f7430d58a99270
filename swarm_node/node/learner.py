"""Makes what needs torch: policy, generator, trainer, and the node that joins them.

environments.py and network.py make what needs none.
"""

import json
from pathlib import Path
from time import perf_counter

import torch

from protocol.messages import PeerId
from swarm_node.common import plugins
from swarm_node.generation.generator import BatchGenerator
from swarm_node.node.round import Node
from swarm_node.policy.loading import load_policy
from swarm_node.policy.memory_plan import fitted
from swarm_node.policy.models import source
from swarm_node.policy.policy import Frame, Policy
from swarm_node.policy.precision import Use, plain, precision_of
from swarm_node.policy.ranks import ALONE, Ranks
from swarm_node.policy.tried import Tried
from swarm_node.rollouts.defence import LayeredDefence
from swarm_node.rollouts.interfaces import Environment, Generator, Network, Trainer
from swarm_node.rollouts.pool import Reuse, RolloutPool
from swarm_node.rollouts.scoring_ahead import ExternalScoring
from swarm_node.settings import DefenceConfig, EvaluationConfig, LearningConfig, ModelConfig, asked_for
from swarm_node.settings.model import NO_TEMPLATE
from swarm_node.training.trainer import GrpoTrainer

REUSE_ROUNDS, REUSE_SECONDS = 6, 5.0  # groups come once a second at most, and a round may take a tenth of that


def build_policy(
    config: ModelConfig, resume: Path | None = None, tried: Tried | None = None, precision: Use = plain
) -> Policy:
    """The policy by its name, as `models.source` has it; from a checkpoint folder with `resume`. `tried`: what is known
    to work here. `precision`: see `load_policy`."""
    policy = load_policy(config.model_copy(update={"name": source(config.name)}), resume, precision)
    policy.tried = tried or policy.tried
    return policy


def configured_policy(
    config: LearningConfig | EvaluationConfig, resume: Path | None = None, tried: Tried | None = None
) -> Policy:
    """The same, told what stands around a prompt, with the precision of an extension whose section asks for one.
    UserError where the model's chat template does not take that."""
    policy = build_policy(config.model, resume, tried, precision_of(config))
    system = config.system if isinstance(config, EvaluationConfig) else config.environment.system
    chat = config.model.template_arguments != NO_TEMPLATE
    arguments = json.loads(config.model.template_arguments or "{}") if chat else {}
    policy.take(Frame(system, arguments, next(iter(config.generation.stop), ""), chat))
    return policy


def build_node(
    config: LearningConfig,
    peer_id: PeerId,
    environment: Environment,
    network: Network,
    policy: Policy | None = None,
    trainer: Trainer | None = None,
    external: ExternalScoring | None = None,
    ranks: Ranks = ALONE,
    exact_mix: bool = False,
) -> Node:
    """A node, its policy loaded by `config.model` unless given. `external` scores
    external groups; without it they are scored as they are selected. `ranks`: those that this process leads.
    `exact_mix`: a round trains on just the numbers of local and external groups that are set: nothing fills in for
    external groups that have not come, and none is used twice."""
    if config.threads:
        torch.set_num_threads(config.threads)
    policy = policy or configured_policy(config)
    config, _ = fitted(config, policy, shares=ranks.state_shares)
    return Node(
        peer_id=peer_id,
        seed=config.seed,
        environment=environment,
        generator=build_generator(config, policy, ranks),
        trainer=trainer or build_trainer(config, policy, initial(config, policy.tried), ranks),
        network=network,
        pool=RolloutPool(peer_id),
        reuse=Reuse(1 if exact_mix else REUSE_ROUNDS, REUSE_SECONDS),
        sampler=plugins.load("samplers", config.round.sampler)(),
        defence=build_defence(config.defence),
        config=config.round,
        group_size=config.generation.num_generations,
        clock=perf_counter,
        external=external,
        fill_with_local=not exact_mix,
    )


def build_generator(config: LearningConfig, policy: Policy, ranks: Ranks = ALONE) -> Generator:
    """The generator of an extension whose section asks for it, else one in this process."""
    for name in asked_for(config, "generators"):
        made: Generator | None = plugins.load("generators", name)(policy, config)
        if made is not None:
            return made
    return BatchGenerator(policy, config.generation, ranks)


def build_defence(config: DefenceConfig) -> LayeredDefence:
    """The layers in the order in which the configuration names them."""
    return LayeredDefence([plugins.load("defences", name)() for name in config.layers])


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
    if not config.training.beta or config.model.lora_rank:
        return None
    return configured_policy(config, tried=tried)
