"""What a node says of a round: one record of named figures, as plain data. No torch.

A metric is a field here, marked by `Metric`, and a line where it is measured: the trainer (`StepReport`) or the node
(`RoundReport`). From the field alone it reaches events.jsonl, report.json, the live view and every tracker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_type_hints

from protocol.messages import PeerId, Round

PHASES = ("generate", "judge", "share", "rescue", "train")  # of a round, keys of `RoundReport.seconds`


@dataclass(frozen=True, slots=True)
class Metric:
    """What a reader of a figure needs to know, and how those of several nodes become one."""

    unit: str
    meaning: str
    over: Literal["mean", "sum"] = "mean"  # nodes
    stepped: bool = False  # of nodes that took a step only
    shown: str = ""  # format of the live view, such as "entropy {:.2f} nats"; "" where it is not shown


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one call of `Trainer.update` did. Zeros where no step was taken."""

    optimizer_steps: Annotated[int, Metric("steps", "optimiser steps", over="sum")] = 0
    trained_tokens: Annotated[
        int, Metric("tokens", "completion tokens that carried a gradient, each counted once per pass", over="sum")
    ] = 0
    dropped_tokens: Annotated[
        int, Metric("tokens", "tokens of others that were too unlikely to be trusted", over="sum")
    ] = 0
    trained_groups: Annotated[int, Metric("groups", "groups trained on", over="sum")] = 0
    loss: Annotated[float, Metric("", "mean over optimiser steps", stepped=True)] = 0.0
    grad_norm: Annotated[
        float, Metric("", "before clipping, mean over optimiser steps", stepped=True, shown="gradient {:.2g}")
    ] = 0.0
    learning_rate: Annotated[float, Metric("", "of the last step", stepped=True, shown="rate {:.2g}")] = 0.0
    ratio_mean: Annotated[float, Metric("", "pi_theta / pi_old over trained tokens", stepped=True)] = 0.0
    clip_fraction: Annotated[
        float,
        Metric(
            "share",
            "trained tokens whose ratio left the clip range against the advantage",
            stepped=True,
            shown="clipped {:.1%}",
        ),
    ] = 0.0
    entropy: Annotated[
        float, Metric("nats per token", "of the policy at trained tokens", stepped=True, shown="entropy {:.2f} nats")
    ] = 0.0
    staleness: Annotated[
        float, Metric("updates", "between writing and training, mean over own tokens trained on", stepped=True)
    ] = 0.0
    mismatch_mean: Annotated[
        float, Metric("nats", "|log-prob in training - as written|, mean over own tokens of the present weights")
    ] = 0.0
    mismatch_max: Annotated[float, Metric("nats", "its largest")] = 0.0
    mismatch_kl: Annotated[float, Metric("nats per token", "K3 estimate of KL(as written || in training)")] = 0.0
    halvings: Annotated[
        int, Metric("times", "micro-batches were halved because the device ran out of memory", over="sum")
    ] = 0
    skipped: Mapping[str, int] = field(default_factory=dict)  # groups left out, by reason


@dataclass(frozen=True, slots=True)
class Overlap:
    """How generation and training of an asynchronous node went side by side."""

    wall: float  # seconds since the round before was done
    generating: float  # share of its time in which the generator process generated or scored, trainer's work apart
    training: float  # share of its time in which the trainer did not wait for the generator
    waiting: int  # rounds that were generated and not yet trained on when this one was


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One round of one node, as telemetry and the simulation see it."""

    peer_id: PeerId  # of this node
    round: Round  # from 0
    reward: Annotated[float, Metric("", "mean over this node's own completions")]
    reward_by_task: Mapping[str, float]  # "dataset/config_id" -> mean reward
    rollouts: Annotated[int, Metric("completions", "written by this node", over="sum")]
    generated_tokens: Annotated[int, Metric("tokens", "written by this node", over="sum")]
    mean_length: Annotated[float, Metric("tokens", "of an own completion")]
    ended_share: Annotated[float, Metric("share", "own completions that ended by themselves")]
    local_groups: Annotated[int, Metric("groups", "own ones trained on, before dropping those without signal")]
    local_informative: Annotated[int, Metric("groups", "of those, with a non-zero advantage")]
    external_informative: Annotated[int, Metric("groups", "of others trained on, all with a non-zero advantage")]
    informative_share: Annotated[float, Metric("share", "of all own groups of the round, with a non-zero advantage")]
    pool_size: Annotated[int, Metric("groups", "of others that wait")]
    skipped: Mapping[str, int]  # questions and groups left out, by reason
    rejected: Mapping[str, int]  # messages refused so far, by reason
    step: StepReport  # what the update did
    seconds: Mapping[str, float]  # of wall clock by phase: generate, judge, share, rescue, train
    overlap: Overlap | None = None  # of an asynchronous node, whose `seconds` do not add up to its wall time


def _metrics(kind: type) -> dict[str, Metric]:
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: mark
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, Metric)
    }


METRICS: Mapping[str, Metric] = {**_metrics(RoundReport), **_metrics(StepReport)}


def figures(report: RoundReport) -> dict[str, float]:
    """Every metric of the round by its name."""
    return {name: getattr(report if hasattr(report, name) else report.step, name) for name in METRICS}


def combined(reports: Sequence[RoundReport]) -> dict[str, float]:
    """Every metric over several nodes; 0 where none of them has it."""
    rows = [(figures(report), report.step.optimizer_steps > 0) for report in reports]
    result: dict[str, float] = {}
    for name, about in METRICS.items():
        values = [row[name] for row, stepped in rows if stepped or not about.stepped]
        result[name] = sum(values) if about.over == "sum" else mean(values)
    return result


def mean(values: Sequence[float]) -> float:
    """Zero of nothing: a round in which no node took part earned nothing."""
    return sum(values) / len(values) if values else 0.0
