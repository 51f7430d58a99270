"""Makes a node with its generator and trainer, which need torch, and the scoring of external groups
for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic, perf_counter
from typing import Any

import torch

from protocol.messages import PeerId, Round
from swarm_node.common import plugins
from swarm_node.common.awake import looking_awake
from swarm_node.common.errors import UserError
from swarm_node.environments.registry import build_environment, with_environment
from swarm_node.generation.generator import BatchGenerator
from swarm_node.generation.parallel import ParallelGenerator
from swarm_node.node.guided import Guide
from swarm_node.node.round import Node, judging
from swarm_node.policy.aside import Aside
from swarm_node.policy.batch import completion_lengths
from swarm_node.policy.loading import configured_policy
from swarm_node.policy.memory_plan import fitted
from swarm_node.policy.plan import Plan, amount
from swarm_node.policy.policy import Policy
from swarm_node.policy.tried import Tried
from swarm_node.rollouts.advantages import ADVANTAGES
from swarm_node.rollouts.defence import LAYERS, LayeredDefence
from swarm_node.rollouts.inbox import Inbox
from swarm_node.rollouts.interfaces import Environment, Generator, Network, Trainer
from swarm_node.rollouts.sampler import as_sampler
from swarm_node.rollouts.scoring_ahead import ExternalScoring, ScoringAhead
from swarm_node.rollouts.shares import Shares
from swarm_node.settings import DefenceConfig, LearningConfig, NodeConfig
from swarm_node.training.trainer import GrpoTrainer

# Groups come once a second at most, and a round may take a tenth of that
SERVED_ROUNDS, SERVED_SECONDS = 6, 5.0
# An external group may take a fifth of the time of a local one: its author may be hostile
EXTERNAL_SHARE = 5
# Questions that are built first: the start of a process takes seconds, and no group is at fault for
# that
WARMING = 8


@dataclass(frozen=True, slots=True)
class Learner:
    """A node and its model, fitted to memory."""

    config: NodeConfig  # with what the plan chose
    plan: Plan | None  # None for a device, or a model, of which too little is known
    policy: Policy
    node: Node
    devices: tuple[str, ...] = ()  # where there are several
    # Compares the weights on all devices
    compare: Callable[[], None] = lambda: None

    def facts(self) -> dict[str, str]:
        """The model, where it runs and how, as the first lines of a run and its manifest show
        it.
        """
        policy, plan = self.policy, self.plan
        parameters = sum(p.numel() for p in policy.model.parameters())
        return {
            "model": f"{Path(policy.name).name} ({parameters / 1e6:.1f} M)",
            "device": ", ".join(self.devices) or str(policy.device),
            "rows": self.node.trainer.rows,
            "decoder": self.node.generator.decoder_name,
            "linear layers": policy.arithmetic,
            "memory": f"about {amount(plan.total)} of {amount(plan.room)}" if plan else "",
        }


def build_learner(
    config: NodeConfig,
    peer_id: PeerId,
    environment: Environment,
    network: Network,
    *,
    resume: Path | None,
    tried: Tried,
    external: ExternalScoring | None,
) -> Learner:
    """Returns the node that `swarm-node run` trains, with sizes that fit into memory. `resume`: a
    checkpoint to take the weights from; `tried`: what is known to work on this machine.
    `build_node` explains the other arguments.
    """
    policy = configured_policy(config, resume, tried)
    config, plan = fitted(config, policy, config.limits, environment.catalogue.most_turns)
    node = build_node(config, peer_id, environment, network, policy, external=external)
    return Learner(config, plan, policy, node)


def build_node(
    config: LearningConfig,
    peer_id: PeerId,
    environment: Environment,
    network: Network,
    policy: Policy | None = None,
    trainer: Trainer | None = None,
    external: ExternalScoring | None = None,
    exact_mix: bool = False,
) -> Node:
    """A node, its policy loaded by `config.model` unless given. `external` scores external groups;
    without it they are scored as they are selected. `exact_mix`: a round trains on exactly the
    configured numbers of local and external groups: nothing fills in for external groups that have
    not come, none is used twice, and they are drawn by chance alone, as in the paper.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    policy = policy or configured_policy(config)
    config, _ = fitted(config, policy, turns=environment.catalogue.most_turns)
    return Node(
        peer_id=peer_id,
        seed=config.seed,
        environment=environment,
        generator=build_generator(config, policy),
        trainer=trainer or build_trainer(config, policy, initial(config, policy.tried)),
        network=network,
        inbox=Inbox(
            peer_id,
            1 if exact_mix else SERVED_ROUNDS,
            SERVED_SECONDS,
            shares=None if exact_mix else Shares(),
        ),
        sampler=as_sampler(plugins.made("samplers", config.round.sampler)),
        defence=build_defence(config.defence),
        config=config.round,
        group_size=config.generation.num_generations,
        clock=perf_counter,
        external=external,
        fill_with_local=not exact_mix,
        lengths=partial(completion_lengths, policy),
        guide=build_guide(config, policy),
    )


def build_guide(config: LearningConfig, policy: Policy) -> Guide | None:
    """What lets right completions of peers guide this node's; None where nothing does. UserError
    where another process generates, which does not hear of them.
    """
    if not config.round.prefix or not config.round.external_groups:
        return None
    if config.asynchronous.enabled:
        raise UserError(
            "round.prefix is for a node that generates and trains in one process: leave it, or "
            "asynchronous.enabled, off"
        )
    return Guide(policy, config.round.prefix, config.round.external_groups)


def build_generator(config: LearningConfig, policy: Policy) -> Generator:
    """A vLLM server's where the configuration names one, else one in this process."""
    if not config.vllm.url:
        return BatchGenerator(policy, config.generation)
    from swarm_node.generation.vllm.generator import vllm_generator  # now: it loads httpx

    return vllm_generator(policy, config)


def build_defence(config: DefenceConfig) -> LayeredDefence:
    """The layers in the order in which the configuration names them."""
    return LayeredDefence([plugins.chosen("defences", name, LAYERS)() for name in config.layers])


def set_aside(config: NodeConfig, node: Node, policy: Policy) -> Aside | None:
    """What gives the card's memory back while the node rests; None where it keeps it, or has none.
    UserError where that memory is not in one process, or cannot be moved.
    """
    if config.limits.rest == "keep" or policy.device.type == "cpu":
        return None
    hindrances = {
        "--asynchronous.enabled": config.asynchronous.enabled,
        "--model.quantization nf4": config.model.quantization != "none",
        f"--fp8.precision {config.fp8.precision}": config.fp8.precision != "bf16",
        "--vllm.url": bool(config.vllm.url),
    }
    for option in (option for option, given in hindrances.items() if given):
        raise UserError(
            f"limits.rest free cannot move what {option} keeps on the GPU: remove one of the two"
        )
    generator, trainer = node.generator, node.trainer
    assert isinstance(generator, BatchGenerator | ParallelGenerator)
    assert isinstance(trainer, GrpoTrainer)
    return Aside(trainer.held, generator.rest)


def build_trainer(
    config: LearningConfig, policy: Policy, reference: Policy | None = None
) -> GrpoTrainer:
    """The trainer with the objective and the advantages that the configuration names."""
    training = config.training
    return GrpoTrainer(
        policy,
        training,
        config.generation,
        reference,
        objective=plugins.load("objectives", training.objective),
        advantages=plugins.chosen("advantages", training.scale_rewards, ADVANTAGES),
    )


def initial(config: LearningConfig, tried: Tried) -> Policy | None:
    """The initial policy for a KL penalty, also after a resume. LoRA needs none: its base is that
    policy.
    """
    if not config.training.beta or config.model.lora_rank:
        return None
    return configured_policy(config, tried=tried)


@contextmanager
def scoring_ahead(
    config: LearningConfig, peer_id: PeerId, note: Callable[[str, Any], None]
) -> Iterator[ExternalScoring]:
    """Scores external groups in a thread until the context ends. Their own environment gives a
    group less time, so that a slow one delays no local group. `note` gets, as `odd`, the tasks on
    which it is the odd one.
    """
    less = with_environment(config, time_limit=config.environment.time_limit / EXTERNAL_SHARE)
    environment = build_environment(less, prepare=True)

    def warm() -> None:
        environment.prompts(environment.sample(peer_id, Round(0), WARMING))

    # What a group took is charged to its author, and a lid may be closed while it is scored
    awake = looking_awake()
    judge = judging(environment, monotonic, partial(note, "odd"))
    scoring = ScoringAhead(judge, awake, Random(), warm)
    scoring.start()
    try:
        yield scoring
    finally:
        scoring.close()
        environment.close()
