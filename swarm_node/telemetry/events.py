"""Everything that can happen in a run, as small frozen values. Plain data: no clock, no text formatting, no I/O.

Sinks turn events into a terminal view or JSON lines. Code that emits an event does not know the sinks. events.jsonl
holds the events of `Written`; the others are for sinks of the same process alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from swarm_node.rollouts.groups import Selection
from swarm_node.rollouts.reports import RoundReport


@dataclass(frozen=True, slots=True)
class Begun:
    """The command has begun and has loaded nothing heavy yet. Before it, sinks start no thread."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A node or a simulation begins, or goes on after a resume."""

    title: str  # e.g. "node 12D3KooW..."
    folder: str  # where its files are kept
    facts: Mapping[str, str] = field(default_factory=dict)  # what a reader wants to know first: model, device, ...
    rounds: int = 0  # done before: rounds of this number and above that stand before this event are done again


@dataclass(frozen=True, slots=True)
class RoundDone:
    """One round of this node."""

    report: RoundReport  # all that is known of the round
    peers: int | None = None  # others it is connected to; None where nobody counts
    waiting: int | None = None  # external groups that have come, and not been collected; None where nobody counts
    alone: str = ""  # why it trained on no external group; empty where it did


@dataclass(frozen=True, slots=True)
class Trained:
    """The node has trained on a round; its `RoundDone` follows."""

    selection: Selection  # the groups, with text of strangers


@dataclass(frozen=True, slots=True)
class Listening:
    """Where others reach the node has changed."""

    addresses: tuple[str, ...]  # full multiaddrs, best first


@dataclass(frozen=True, slots=True)
class Resting:
    """The node rests, or goes on: it is a guest on its machine."""

    reason: str  # why it rests; empty when it goes on


@dataclass(frozen=True, slots=True)
class CheckpointWanted:
    """A sink needs a checkpoint after this round, also where none is due."""


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A checkpoint is on disk."""

    round: int  # rounds done when it was written
    path: str  # its folder


@dataclass(frozen=True, slots=True)
class Corrected:
    """A held-out question that was answered wrongly at first, and is answered rightly now."""

    task: str  # DATASET/CONFIG
    question: str  # the last line of its prompt, or the beginning of that
    before: str  # the first answer
    now: str


@dataclass(frozen=True, slots=True)
class Validated:
    """Held-out questions were asked."""

    round: int  # rounds done
    reward: float  # mean over the questions
    questions: int  # that were completed and scored
    best: bool  # whether it is the highest reward so far, of these tasks
    by_task: Mapping[str, float] = field(default_factory=dict)  # the same by task
    before: Mapping[str, float] = field(default_factory=dict)  # by task, when it was asked for the first time
    corrected: tuple[Corrected, ...] = ()  # one question of each task that has one


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth a line that needs no action."""

    text: str  # one line


@dataclass(frozen=True, slots=True)
class Warned:
    """Something a user should look at; the run goes on."""

    text: str  # one line


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A node or a simulation ends as it should."""

    text: str  # e.g. "stopped after 200 rounds"


@dataclass(frozen=True, slots=True)
class CellStarted:
    """A simulation begins one repetition (seed) of one arm."""

    arm: str  # local/external groups, e.g. "4/4"
    seed: int  # of the repetition


@dataclass(frozen=True, slots=True)
class CellRound:
    """One round of a whole simulated swarm. Means are over the nodes that took part; zero where none did."""

    arm: str  # as in CellStarted
    seed: int  # as in CellStarted
    round: int  # from 0
    nodes: int  # that took part
    reward: float  # mean over nodes of the sum over a node's questions of the group's mean reward
    node_rewards: tuple[float | None, ...]  # that sum for every node; None where it did not take part
    reward_by_task: Mapping[str, float]  # mean reward of a completion, over the nodes that had the task
    informative_share: float  # of local groups, with a non-zero advantage
    external_groups: float  # trained on, per node
    rollouts: int  # completions, all nodes
    generated_tokens: int  # all nodes
    trained_tokens: int  # all nodes
    mean_length: float  # tokens per completion
    ended_share: float  # of completions that ended by themselves
    entropy: float  # nats per trained token
    grad_norm: float  # before clipping, mean over optimiser steps
    clip_fraction: float  # of trained tokens: their ratio left the clip range against the advantage
    skipped: Mapping[str, int]  # by reason, all nodes, this round
    rejected: Mapping[str, int]  # by reason, all nodes, so far
    seconds: Mapping[str, float]  # by phase, summed over nodes, and "round": wall time of the whole
    attack: Mapping[str, int] = field(default_factory=dict)  # in a swarm under attack: what became of it, all victims
    metrics: Mapping[str, float] = field(default_factory=dict)  # every figure of `reports.METRICS`, over nodes
    accuracy: tuple[Mapping[str, float] | None, ...] = ()  # of every node by task, held out; empty: not asked
    held_out: Mapping[str, float] = field(
        default_factory=dict
    )  # pass_at_k, distinct, entropy, agreement of those answers


@dataclass(frozen=True, slots=True)
class CellFinished:
    """All rounds of a cell are done."""

    arm: str  # as in CellStarted
    seed: int  # as in CellStarted
    cumulative_reward: float  # sum of the rewards of its rounds


@dataclass(frozen=True, slots=True)
class CellFailed:
    """A cell ended by an error; the others go on."""

    arm: str  # as in CellStarted
    seed: int  # as in CellStarted
    error: str  # one line


Written = (
    RunStarted
    | RoundDone
    | Listening
    | Resting
    | CheckpointSaved
    | Validated
    | Notice
    | Warned
    | RunFinished
    | CellStarted
    | CellRound
    | CellFinished
    | CellFailed
)
Event = Written | Begun | Trained | CheckpointWanted
