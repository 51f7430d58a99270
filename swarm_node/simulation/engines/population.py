"""Real nodes of a cell in this process: built from configuration, connected by the swarm in memory.
Imports torch.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial
from random import Random
from statistics import fmean
from typing import Any

from protocol.messages import Question, Round
from swarm_node.common.batched import paired
from swarm_node.environments.kinds import EVALUATION, held_out
from swarm_node.environments.registry import (
    build_environment,
    by_kind,
    right_answer,
    with_environment,
)
from swarm_node.network.client import build_rules
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.node.episodes import complete, onward, scores
from swarm_node.node.learner import build_node
from swarm_node.node.round import Node
from swarm_node.policy.loading import configured_policy
from swarm_node.policy.policy import Policy
from swarm_node.policy.precision import PLAIN
from swarm_node.rollouts.groups import Group, Skipped
from swarm_node.rollouts.interfaces import Environment, Generator, Participant
from swarm_node.settings import LearningConfig
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import all_tasks, identity, node_config, parse_arm
from swarm_node.simulation.attacks.hostile import Hostile, Victim, hostile_nodes
from swarm_node.simulation.attacks.payloads import payload_of
from swarm_node.simulation.cell import PopulationHere
from swarm_node.simulation.participation import DynamicSampling, LaggedNode

BATCH = 64  # prompts decoded together


class LivePopulation(PopulationHere):
    """Nodes with the same tasks share one environment, and so one scoring process."""

    def __init__(self, config: SimulationConfig, swarm: MemorySwarm | None = None) -> None:
        """`swarm`: the one that they join, by default a new one."""
        super().__init__()
        self._config = config
        self._identities = [identity(config.seed, node) for node in range(config.nodes)]
        self._swarm = swarm or MemorySwarm(**way_of_messages(config))
        self._environments: dict[tuple[str, ...], Environment] = {}
        self._asking = ExitStack()
        self._learners: dict[int, Node] = {}
        # By model: a policy with adapters, itself never trained
        self._loaded: dict[str, Policy] = {}
        self._hostile = hostile_nodes(config)
        self._honest_ids = {
            who.peer_id for node, who in enumerate(self._identities) if node not in self._hostile
        }

    def make(self, node: int) -> Participant:
        """A new member of the swarm, with this number."""
        own, who = node_config(self._config, node), self._identities[node]
        environment = self._environment(own)
        if node in self._hostile:
            return Hostile(own, who, environment, partial(right_answer, own), self._swarm)
        network = self._swarm.join(who, build_rules(own, environment).admission(who.peer_id))
        policy = self._adapted(own) if own.model.lora_rank else None
        honest = self._learners[node] = build_node(
            own, who.peer_id, environment, network, policy, exact_mix=True
        )
        if "dynamic_sampling" in parse_arm(own.arms[0]).ways:
            return DynamicSampling(honest)
        if own.attack.kind == "none":
            if not own.asynchronous.enabled:
                return honest
            ahead = own.asynchronous.max_staleness + 1  # as `Capacity` allows
            return LaggedNode(honest, lambda updates: updates + ahead)
        payload = payload_of(own.attack.kind, own.attack.payload)
        return Victim(honest, payload, self._honest_ids.__contains__)

    def _adapted(self, own: LearningConfig) -> Policy:
        """A policy with LoRA adapters of its own. Nodes with the same model share its frozen
        weights.
        """
        if own.model.name not in self._loaded:
            self._loaded[own.model.name] = configured_policy(own)
        first = self._loaded[own.model.name]
        if first.precision is not PLAIN:  # a precision is bound to the layers of its own model
            return configured_policy(own)
        frozen: dict[int, Any] = {id(p): p for p in first.model.parameters() if not p.requires_grad}
        return replace(first, model=deepcopy(first.model, frozen))

    def leave(self, nodes: Sequence[int]) -> None:
        super().leave(nodes)
        for node in nodes:
            self._swarm.leave(self._identities[node].peer_id)
            self._learners.pop(node, None)

    def evaluate(self, nodes: Sequence[int]) -> list[dict[str, float]]:
        """Each node's accuracy by task on held-out questions of all tasks of the swarm. `nodes`:
        present learners.
        """
        return [self._ask(node) for node in nodes]

    def _ask(self, node: int) -> dict[str, float]:
        found: dict[str, float] = {}
        before = 0  # questions asked so far
        for environment, questions in self._exam:
            stream = f"{self._config.seed}/{self._identities[node].peer_id}/held out/{before}"
            samples = self._config.evaluate_samples
            found |= ask(self._learners[node].generator, environment, questions, samples, stream)
            before += len(questions)
        return found

    @cached_property
    def _exam(self) -> list[tuple[Environment, list[Question]]]:
        """Held-out questions of all tasks of the swarm, the same for all nodes and rounds."""
        config = with_environment(self._config, tasks=all_tasks(self._config))
        exam: list[tuple[Environment, list[Question]]] = []
        for kind, tasks in by_kind(config):
            environment = kind.start(tasks, with_environment(config, scoring=kind.evaluated))
            self._asking.callback(environment.close)
            count = environment.count or self._config.evaluate_questions * len(environment.tasks)
            exam.append((environment, held_out(environment, count)))
        return exam

    def close(self) -> None:
        self._asking.close()
        for environment in self._environments.values():
            environment.close()

    def _environment(self, own: LearningConfig) -> Environment:
        tasks = own.environment.tasks
        if tasks not in self._environments:
            self._environments[tasks] = build_environment(own)
        return self._environments[tasks]


def way_of_messages(config: SimulationConfig) -> dict[str, Any]:
    """How a swarm in memory carries messages: random numbers, and what the faults say."""
    faults = config.faults
    return {
        "rng": Random(f"{config.seed}/network"),
        "loss": faults.loss,
        "delay": faults.delay,
    }


def ask(
    generator: Generator,
    environment: Environment,
    questions: Sequence[Question],
    samples: int,
    stream: str,
) -> dict[str, float]:
    """Mean reward of a completion by task, of `samples` completions of each question. Questions
    that could not be asked, completed or scored do not count. `stream` names the random numbers.
    The run uses other names, so asking changes nothing in it.
    """
    prompts = paired(questions, environment.prompts(questions))
    asked = [
        Group(EVALUATION, Round(0), question, prompt=prompt)
        for question, prompt in prompts
        if isinstance(prompt, str)
    ]
    completed: list[Group | Skipped] = []
    for start in range(0, len(asked), BATCH):
        part = asked[start : start + BATCH]
        completed += complete(environment, generator, part, samples, f"{stream}/{start}")
    rewards: dict[str, list[float]] = {}
    for group in onward(completed, partial(scores, environment)):
        if isinstance(group, Group):
            task = f"{group.question.dataset}/{group.question.config_id}"
            rewards.setdefault(task, []).append(fmean(group.rewards))
    return {task: fmean(values) for task, values in sorted(rewards.items())}
