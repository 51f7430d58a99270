"""What a swarm has learnt, from held-out answers: by whose tasks, when, and how far it spread. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from swarm_node.extensions.simulation.folder import Record
from swarm_node.rollouts.reports import mean
from swarm_node.telemetry.events import CellRound

T = TypeVar("T")
KNOWN = 0.5  # accuracy from which a node knows a task


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Accuracy of an arm on held-out questions of all tasks of the swarm, in [0, 1]. Lists are per seed, and within it
    per evaluation, unless said otherwise."""

    rounds: tuple[int, ...]  # done when it was asked, the same for all seeds
    all_tasks: tuple[tuple[float, ...], ...]  # mean over nodes and tasks
    local_tasks: tuple[tuple[float | None, ...], ...]  # over those that a node asks itself
    other_tasks: tuple[tuple[float | None, ...], ...]  # over those that only others ask; None where there are none
    final: tuple[float, ...]  # per seed: all tasks, at the last evaluation
    final_local: tuple[float | None, ...]  # per seed: local tasks, at the last evaluation
    final_other: tuple[float | None, ...]  # per seed: others' tasks, at the last evaluation
    area: tuple[float, ...]  # per seed: mean over rounds of all tasks, from the first evaluation to the last
    by_node: tuple[tuple[tuple[float | None, ...], ...], ...]  # all tasks, per node; None where it was away
    by_task: Mapping[str, tuple[tuple[float, ...], ...]]  # mean over nodes
    generated_tokens: tuple[tuple[int, ...], ...]  # by all nodes until then
    trained_tokens: tuple[tuple[int, ...], ...]  # by all nodes until then
    figures: Mapping[str, tuple[tuple[float, ...], ...]]  # pass_at_k, distinct, entropy (nats per token), agreement
    adoption: Mapping[str, tuple[int | None, ...]]  # task -> per seed: rounds from the first node that knew it to half


def held_out(records: Sequence[Record], local: Sequence[frozenset[str]]) -> HeldOut | None:
    """None where nothing was asked. `local`: the tasks that each node asks itself."""
    asked = [[done for done in record.rounds if done.accuracy] for record in records]
    if not all(asked):
        return None
    every = [[_over(done, [None] * len(local)) or 0.0 for done in rows] for rows in asked]
    own = [[_over(done, local) for done in rows] for rows in asked]
    other = [[_over(done, local, others=True) for done in rows] for rows in asked]
    tasks = sorted({task for rows in asked for done in rows for node in done.accuracy for task in node or {}})
    names = sorted({name for rows in asked for done in rows for name in done.held_out})
    rounds = tuple(done.round + 1 for done in asked[0])
    return HeldOut(
        rounds=rounds,
        all_tasks=_tuples(every),
        local_tasks=_tuples(own),
        other_tasks=_tuples(other),
        final=tuple(row[-1] for row in every),
        final_local=tuple(row[-1] for row in own),
        final_other=tuple(row[-1] for row in other),
        area=tuple(area(rounds, row) for row in every),
        by_node=tuple(
            tuple(tuple(mean(list(node.values())) if node else None for node in done.accuracy) for done in rows)
            for rows in asked
        ),
        by_task={task: _tuples([[_task(done, task) for done in rows] for rows in asked]) for task in tasks},
        generated_tokens=tuple(_until(record, rounds, "generated_tokens") for record in records),
        trained_tokens=tuple(_until(record, rounds, "trained_tokens") for record in records),
        figures={name: _tuples([[done.held_out.get(name, 0.0) for done in rows] for rows in asked]) for name in names},
        adoption={task: tuple(adoption(rows, task) for rows in asked) for task in tasks},
    )


def area(rounds: Sequence[int], values: Sequence[float]) -> float:
    """Mean over rounds by the trapezoid rule; the value itself where there is one."""
    if len(rounds) < 2:
        return values[0]
    steps = range(1, len(rounds))
    whole = sum((rounds[i] - rounds[i - 1]) * (values[i] + values[i - 1]) / 2 for i in steps)
    return whole / (rounds[-1] - rounds[0])


def adoption(asked: Sequence[CellRound], task: str) -> int | None:
    """Rounds from the evaluation at which some node knew the task to the one at which half of those present did. None
    where either did not come."""
    first = None
    for done in asked:
        known = [node[task] >= KNOWN for node in done.accuracy if node and task in node]
        if any(known) and first is None:
            first = done.round
        if first is not None and 2 * sum(known) >= len(known) > 0:
            return done.round - first
    return None


def _over(done: CellRound, local: Sequence[frozenset[str] | None], *, others: bool = False) -> float | None:
    """Mean over nodes of the mean over a node's tasks: its own, or with `others` all but these; None takes all."""
    means = []
    for node, own in zip(done.accuracy, local, strict=True):
        values = [value for task, value in (node or {}).items() if own is None or (task in own) != others]
        means += [mean(values)] if values else []
    return mean(means) if means else None


def _task(done: CellRound, task: str) -> float:
    return mean([node[task] for node in done.accuracy if node and task in node])


def _until(record: Record, rounds: Sequence[int], name: str) -> tuple[int, ...]:
    return tuple(sum(getattr(done, name) for done in record.rounds[:number]) for number in rounds)


def _tuples(rows: Sequence[Sequence[T]]) -> tuple[tuple[T, ...], ...]:
    return tuple(tuple(row) for row in rows)
