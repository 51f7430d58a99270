"""What a swarm has learnt, from held-out answers: of whose tasks, and when. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from swarm_node.extensions.simulation.arms import Record
from swarm_node.extensions.simulation.events import CellRound
from swarm_node.extensions.simulation.statistics import ci95
from swarm_node.rollouts.groups import mean

T = TypeVar("T")
LocalTasks = Sequence[frozenset[str]]  # that each node asks itself


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Accuracy of an arm on held-out questions of all tasks of the swarm, in [0, 1]. Lists are per seed, and within it
    per evaluation, unless said otherwise. Local tasks are those that a node asks itself, others' tasks those that only
    others ask: None where there are none."""

    rounds: tuple[int, ...]  # done when it was asked, the same for all seeds
    all_tasks: tuple[tuple[float, ...], ...]  # mean over nodes and tasks
    local_tasks: tuple[tuple[float | None, ...], ...]  # mean over nodes and their local tasks
    other_tasks: tuple[tuple[float | None, ...], ...]  # mean over nodes and others' tasks
    final: tuple[float, ...]  # per seed: all tasks, at the last evaluation
    final_local: tuple[float | None, ...]  # per seed: local tasks, at the last evaluation
    final_other: tuple[float | None, ...]  # per seed: others' tasks, at the last evaluation
    final_ci95: tuple[float | None, ...]  # of these three: half-width over seeds, over nodes where there is one seed
    area: tuple[float, ...]  # per seed: mean over rounds of all tasks, from the first evaluation to the last
    by_task: dict[str, tuple[tuple[float, ...], ...]]  # mean over nodes
    generated_tokens: tuple[tuple[int, ...], ...]  # by all nodes until then
    trained_tokens: tuple[tuple[int, ...], ...]  # by all nodes until then


def held_out(records: Sequence[Record], local: LocalTasks) -> HeldOut | None:
    """None where nothing was asked."""
    asked = [[done for done in record.rounds if done.accuracy] for record in records]
    if not all(asked):
        return None
    every, own, other = ([[kind(done, local) for done in rows] for rows in asked] for kind in (_all, _own, _others))
    means = [[[_mean(nodes) for nodes in row] for row in rows] for rows in (every, own, other)]
    tasks = sorted({task for rows in asked for done in rows for node in done.accuracy for task in node or {}})
    rounds = tuple(done.round + 1 for done in asked[0])
    whole = [[value or 0.0 for value in row] for row in means[0]]
    return HeldOut(
        rounds=rounds,
        all_tasks=_tuples(whole),
        local_tasks=_tuples(means[1]),
        other_tasks=_tuples(means[2]),
        final=tuple(row[-1] for row in whole),
        final_local=tuple(row[-1] for row in means[1]),
        final_other=tuple(row[-1] for row in means[2]),
        final_ci95=tuple(_half([row[-1] for row in rows]) for rows in (every, own, other)),
        area=tuple(area(rounds, row) for row in whole),
        by_task={task: _tuples([[_task(done, task) for done in rows] for rows in asked]) for task in tasks},
        generated_tokens=tuple(_until(record, rounds, "generated_tokens") for record in records),
        trained_tokens=tuple(_until(record, rounds, "trained_tokens") for record in records),
    )


def area(rounds: Sequence[int], values: Sequence[float]) -> float:
    """Mean over rounds by the trapezoid rule; the value itself where there is one."""
    if len(rounds) < 2:
        return values[0]
    steps = range(1, len(rounds))
    whole = sum((rounds[i] - rounds[i - 1]) * (values[i] + values[i - 1]) / 2 for i in steps)
    return whole / (rounds[-1] - rounds[0])


def _all(done: CellRound, local: LocalTasks) -> list[float]:
    """The mean of each node that was asked."""
    return [mean(list(node.values())) for node in done.accuracy if node]


def _own(done: CellRound, local: LocalTasks) -> list[float]:
    """The mean of each node over its local tasks."""
    found = [[v for task, v in (n or {}).items() if task in own] for n, own in zip(done.accuracy, local, strict=True)]
    return [mean(values) for values in found if values]


def _others(done: CellRound, local: LocalTasks) -> list[float]:
    """The mean of each node over others' tasks."""
    every = frozenset(task for node in done.accuracy for task in node or {})
    return _own(done, [every - own for own in local])


def _mean(nodes: Sequence[float]) -> float | None:
    return mean(nodes) if nodes else None


def _half(ends: Sequence[Sequence[float]]) -> float | None:
    """`ends`: per seed, per node."""
    return ci95(ends[0] if len(ends) == 1 else [mean(nodes) for nodes in ends if nodes])


def _task(done: CellRound, task: str) -> float:
    return mean([node[task] for node in done.accuracy if node and task in node])


def _until(record: Record, rounds: Sequence[int], name: str) -> tuple[int, ...]:
    return tuple(int(sum(done.metrics[name] for done in record.rounds[:number])) for number in rounds)


def _tuples(rows: Sequence[Sequence[T]]) -> tuple[tuple[T, ...], ...]:
    return tuple(tuple(row) for row in rows)
