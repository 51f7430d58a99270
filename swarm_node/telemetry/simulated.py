"""The events of a simulation, besides those of any run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from swarm_node.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class CellStarted(Event):
    """A simulation begins one repetition (seed) of one arm."""

    arm: str  # local/external groups, e.g. "4/4"
    seed: int  # of the repetition


@dataclass(frozen=True, slots=True)
class CellRound(Event):
    """One round of a whole simulated swarm. Means are over the nodes that took part; zero where
    none did.
    """

    arm: str  # as in CellStarted
    seed: int  # as in CellStarted
    round: int  # from 0
    nodes: int  # that took part
    reward: float  # mean over nodes of the sum over a node's questions of the group's mean reward
    # That sum for every node; None where it did not take part
    node_rewards: tuple[float | None, ...]
    # Mean reward of a completion, over the nodes that had the task
    reward_by_task: Mapping[str, float]
    skipped: Mapping[str, int]  # by reason, all nodes, this round
    rejected: Mapping[str, int]  # by reason, all nodes, so far
    seconds: Mapping[str, float]  # by phase, summed over nodes, and "round": wall time of the whole
    metrics: Mapping[str, float]  # every figure of `groups.METRICS`, over nodes
    # In a swarm under attack: what became of it, all victims
    attack: Mapping[str, int] = field(default_factory=dict)
    # Of every node by task, held out; empty: not asked
    accuracy: tuple[Mapping[str, float] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class CellFinished(Event):
    """All rounds of a cell are done."""

    arm: str  # as in CellStarted
    seed: int  # as in CellStarted
    cumulative_reward: float  # sum of the rewards of its rounds


@dataclass(frozen=True, slots=True)
class CellFailed(Event):
    """A cell ended by an error; the others continue."""

    arm: str  # as in CellStarted
    seed: int  # as in CellStarted
    error: str  # one line
