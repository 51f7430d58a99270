"""What a node says of a round: one record of named figures, as plain data. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from protocol.messages import PeerId, Round


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one call of `Trainer.update` did. Zeros where no step was taken."""

    optimizer_steps: int = 0
    trained_tokens: int = 0  # completion tokens that carried a gradient, each counted once per pass
    dropped_tokens: int = 0  # tokens of others that were too unlikely to be trusted
    trained_groups: int = 0
    loss: float = 0.0  # mean over optimiser steps
    grad_norm: float = 0.0  # before clipping, mean over optimiser steps
    learning_rate: float = 0.0  # of the last step
    ratio_mean: float = 0.0  # pi_theta / pi_old over trained tokens
    clip_fraction: float = 0.0  # share of trained tokens whose ratio left the clip range against the advantage
    entropy: float = 0.0  # nats per token of the policy at trained tokens
    staleness: float = 0.0  # updates between writing and training, mean over own tokens trained on
    mismatch_mean: float = 0.0  # |log-prob in training - as written|, mean over own tokens of the present weights
    mismatch_max: float = 0.0  # its largest
    mismatch_kl: float = 0.0  # K3 estimate of KL(as written || in training), nats per token
    halvings: int = 0  # times micro-batches were halved because the device ran out of memory
    skipped: Mapping[str, int] = field(default_factory=dict)  # groups left out, by reason


@dataclass(frozen=True, slots=True)
class Overlap:
    """How generation and training of an asynchronous node went side by side."""

    wall: float  # seconds since the round before was done
    generating: float  # share of its time in which the generator wrote or judged
    training: float  # share of its time in which the trainer did not wait for the generator
    waiting: int  # rounds that were written and not yet trained on when this one was


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One round of one node, as telemetry and the simulation see it."""

    peer_id: PeerId
    round: Round
    reward: float  # mean over this node's own completions
    reward_by_task: Mapping[str, float]  # "dataset/config_id" -> mean reward
    rollouts: int  # completions this node wrote
    generated_tokens: int
    mean_length: float  # tokens per own completion
    ended_share: float  # share of own completions that ended by themselves
    local_groups: int  # of its own groups trained on, before dropping those without signal
    local_informative: int  # of those, with a non-zero advantage
    external_informative: int  # groups of others trained on, all with a non-zero advantage
    informative_share: float  # share of ALL own groups written this round with a non-zero advantage
    pool_size: int
    skipped: Mapping[str, int]  # questions and groups left out, by reason
    rejected: Mapping[str, int]  # messages refused so far, by reason
    step: StepReport
    seconds: Mapping[str, float]  # wall time of "generate", "judge", "share", "train"
    overlap: Overlap | None = None  # of an asynchronous node, whose `seconds` do not add up to its wall time
