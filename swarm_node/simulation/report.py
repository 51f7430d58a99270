"""From finished cells to the numbers of report.json. What depends on the machine is under `cost`.

The reward of a node in a round is the sum over its questions of the group's mean reward. So it is
at most the number of questions. The reward of a round is the mean over the nodes that took part.
The cumulative reward, the figure of the SAPO paper, is the sum over rounds. Two runs with the same
configuration differ only in `cost`.

The fields are what users and lab/studies read, and `make reference` lists them: add one with a
sentence after it, and rename none without a line in the changelog.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import TypeVar

from swarm_node.rollouts.groups import METRICS, mean
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import (
    Arm,
    FinishedCell,
    cell_config,
    local_tasks,
    node_names,
    parse_arms,
)
from swarm_node.simulation.cell import total
from swarm_node.telemetry.simulated import CellRound

LAST = 10  # rounds that count as the end of a run

T = TypeVar("T")
LocalTasks = Sequence[frozenset[str]]  # of each node: the tasks that it practises
# 97.5 % quantile of Student's t for 1, 2, ... degrees of freedom: samples are too small for the
# normal distribution
T_975 = (
    *(
        12.706205,
        4.302653,
        3.182446,
        2.776445,
        2.570582,
        2.446912,
        2.364624,
        2.306004,
        2.262157,
        2.228139,
    ),
    *(
        2.200985,
        2.178813,
        2.160369,
        2.144787,
        2.131450,
        2.119905,
        2.109816,
        2.100922,
        2.093024,
        2.085963,
    ),
    *(
        2.079614,
        2.073873,
        2.068658,
        2.063899,
        2.059539,
        2.055529,
        2.051831,
        2.048407,
        2.045230,
        2.042272,
    ),
)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Accuracy of an arm on held-out questions of all tasks of the swarm, in [0, 1]. Lists are per
    seed, and within it per evaluation, unless said otherwise. Local tasks are those that a node
    asks itself, others' tasks those that only others ask: None where there are none.
    """

    rounds: tuple[int, ...]  # done when it was asked, the same for all seeds
    all_tasks: tuple[tuple[float, ...], ...]  # mean over nodes and tasks
    local_tasks: tuple[tuple[float | None, ...], ...]  # mean over nodes and their local tasks
    other_tasks: tuple[tuple[float | None, ...], ...]  # mean over nodes and others' tasks
    final: tuple[float, ...]  # per seed: all tasks, at the last evaluation
    final_local: tuple[float | None, ...]  # per seed: local tasks, at the last evaluation
    final_other: tuple[float | None, ...]  # per seed: others' tasks, at the last evaluation
    # Of these three: half-width over seeds, over nodes where there is one seed
    final_ci95: tuple[float | None, ...]
    # Per seed: mean over rounds of all tasks, from the first evaluation to the last
    area: tuple[float, ...]
    by_task: dict[str, tuple[tuple[float, ...], ...]]  # mean over nodes
    generated_tokens: tuple[tuple[int, ...], ...]  # by all nodes until then
    trained_tokens: tuple[tuple[int, ...], ...]  # by all nodes until then


def held_out(records: Sequence[FinishedCell], local: LocalTasks) -> HeldOut | None:
    """The held-out accuracy of an arm from its cells. None unless every cell has asked held-out
    questions.
    """
    asked: list[list[CellRound]] = []  # by seed
    for record in records:
        asked.append([done for done in record.rounds if done.accuracy])
    if not all(asked):
        return None
    # By kind of task, by seed, by round: the accuracy of each node
    of_nodes = [_by_round(kind, asked, local) for kind in (_all, _own, _others)]
    all_means, own_means, other_means = map(_means, of_nodes)
    tasks = sorted({task for done in chain(*asked) for task in _asked_tasks(done)})
    rounds = tuple(done.round + 1 for done in asked[0])
    whole: list[list[float]] = []
    for means in all_means:
        whole.append([value or 0.0 for value in means])
    intervals: list[float | None] = []
    for by_seed in of_nodes:
        intervals.append(_half([by_round[-1] for by_round in by_seed]))
    by_task: dict[str, tuple[tuple[float, ...], ...]] = {}
    for task in tasks:
        by_task[task] = tuple(_course(rows, task) for rows in asked)
    generated = [_until(record, rounds, "generated_tokens") for record in records]
    trained = [_until(record, rounds, "trained_tokens") for record in records]
    return HeldOut(
        rounds=rounds,
        all_tasks=_tuples(whole),
        local_tasks=_tuples(own_means),
        other_tasks=_tuples(other_means),
        final=_last(whole),
        final_local=_last(own_means),
        final_other=_last(other_means),
        final_ci95=tuple(intervals),
        area=tuple(area(rounds, row) for row in whole),
        by_task=by_task,
        generated_tokens=tuple(generated),
        trained_tokens=tuple(trained),
    )


def _by_round(
    kind: Callable[[CellRound, LocalTasks], list[float]],
    asked: Sequence[Sequence[CellRound]],
    local: LocalTasks,
) -> list[list[list[float]]]:
    """The accuracy of each node over the tasks of one kind, by seed and round."""
    by_seed: list[list[list[float]]] = []
    for rows in asked:
        by_seed.append([kind(done, local) for done in rows])
    return by_seed


def _means(by_seed: Sequence[Sequence[Sequence[float]]]) -> list[list[float | None]]:
    """The mean over nodes, by seed and round; None where no node was asked."""
    means: list[list[float | None]] = []
    for by_round in by_seed:
        means.append([_mean(nodes) for nodes in by_round])
    return means


def _last(rows: Sequence[Sequence[T]]) -> tuple[T, ...]:
    return tuple(row[-1] for row in rows)


def area(rounds: Sequence[int], values: Sequence[float]) -> float:
    """The mean of `values` over `rounds` by the trapezoid rule; a single value is its own mean."""
    if len(rounds) < 2:
        return values[0]
    parts: list[float] = []
    for (begin, end), (before, after) in zip(pairwise(rounds), pairwise(values), strict=True):
        parts.append((end - begin) * (after + before) / 2)
    return sum(parts) / (rounds[-1] - rounds[0])


def _all(done: CellRound, local: LocalTasks) -> list[float]:
    """The mean accuracy over all tasks of each node that was asked."""
    return [mean(list(node.values())) for node in done.accuracy if node]


def _own(done: CellRound, local: LocalTasks) -> list[float]:
    """The mean accuracy of each node over its local tasks."""
    means: list[float] = []
    for accuracy, own in zip(done.accuracy, local, strict=True):
        values = [value for task, value in (accuracy or {}).items() if task in own]
        if values:
            means.append(mean(values))
    return means


def _others(done: CellRound, local: LocalTasks) -> list[float]:
    """The mean accuracy of each node over others' tasks."""
    every = frozenset(task for node in done.accuracy for task in node or {})
    return _own(done, [every - own for own in local])


def _mean(nodes: Sequence[float]) -> float | None:
    return mean(nodes) if nodes else None


def _half(ends: Sequence[Sequence[float]]) -> float | None:
    """Half-width over seeds, or over nodes where there is one seed. `ends`: accuracy per seed, per
    node.
    """
    if len(ends) == 1:
        return ci95(ends[0])
    return ci95([mean(nodes) for nodes in ends if nodes])


def _asked_tasks(done: CellRound) -> set[str]:
    """The tasks whose held-out questions some node answered in this round."""
    return {task for by_task in done.accuracy for task in by_task or ()}


def _course(rounds: Sequence[CellRound], task: str) -> tuple[float, ...]:
    """The held-out accuracy of a task by round."""
    return tuple(_task(done, task) for done in rounds)


def _task(done: CellRound, task: str) -> float:
    return mean([node[task] for node in done.accuracy if node and task in node])


def _until(record: FinishedCell, rounds: Sequence[int], name: str) -> tuple[int, ...]:
    sums: list[int] = []
    for number in rounds:
        until_then = [done.metrics[name] for done in record.rounds[:number]]
        sums.append(int(sum(until_then)))
    return tuple(sums)


def _tuples(rows: Sequence[Sequence[T]]) -> tuple[tuple[T, ...], ...]:
    return tuple(tuple(row) for row in rows)


@dataclass(frozen=True, slots=True)
class AttackSummary:
    """The effect of an attack on the honest nodes. Shares are of counts, in [0, 1]; None if there
    was nothing.
    """

    # Per seed: share of local completions with the payload, in the last rounds
    success: tuple[float, ...]
    length: tuple[float, ...]  # per seed: tokens of a local completion, in the last rounds
    honest_refused: float | None  # share of the honest groups selected that the defence refused
    hostile_refused: float | None  # the same of hostile ones
    hostile_selected: float | None  # share of the groups selected that were hostile


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm over all its seeds. Lists "per seed" are in the order of `Report.seeds`."""

    local_groups: int  # trained on per round
    external_groups: int  # trained on per round
    cumulative_reward: tuple[float, ...]  # per seed
    mean: float  # of the cumulative rewards
    ci95: float | None  # half-width, by Student's t over seeds; None for one seed
    rewards: tuple[tuple[float, ...], ...]  # per seed, per round
    # Per seed: mean reward of a completion in the last rounds, in [0, 1]
    final_reward: tuple[float, ...]
    # Per seed, per round: of local groups, non-zero advantage
    informative_share: tuple[tuple[float, ...], ...]
    # Per seed, per node: cumulative over the rounds it took part in
    node_rewards: tuple[tuple[float, ...], ...]
    generated_tokens: int  # all nodes, rounds and seeds
    trained_tokens: int  # all nodes, rounds and seeds
    rollouts: int  # all nodes, rounds and seeds
    skipped: Mapping[str, int]  # questions and groups left out, by reason
    rejected: Mapping[str, int]  # messages refused, by reason
    attack: AttackSummary | None  # None where nobody attacks
    # Figure of rollouts.groups.METRICS -> per seed, per round
    metrics: Mapping[str, tuple[tuple[float, ...], ...]]
    held_out: HeldOut | None = None  # None without --evaluate-every


@dataclass(frozen=True, slots=True)
class ArmCost:
    """Time and memory of an arm on this machine."""

    # By phase, all nodes, and "round" for the whole; mean over rounds, seeds
    seconds_per_round: Mapping[str, float]
    # Per seed, per round: since the start, without held-out questions
    wall_seconds: tuple[tuple[float, ...], ...]
    # The same of all cores, all processes of a cell; zeros for real nodes
    cpu_seconds: tuple[tuple[float, ...], ...]
    peak_memory_mb: float  # of one cell: its worker and what that started


@dataclass(frozen=True, slots=True)
class Report:
    """The whole file."""

    nodes: tuple[str, ...]  # index, and in a mixed swarm what distinguishes the node
    rounds: int  # of every arm and seed
    seeds: tuple[int, ...]  # of the repetitions of every arm
    questions: int  # per node and round: the highest reward of a node in a round
    scoring: str  # exact or graded: whether a reward is a share of right answers
    arms: Mapping[str, ArmSummary]  # by name, as given
    cost: Mapping[str, ArmCost]  # by the arm's name: what depends on the machine


def build_report(config: SimulationConfig, records: Sequence[FinishedCell]) -> Report:
    """The report on these cells, which may come in any order. Cells of an arm may be missing."""
    present = {record.cell.arm for record in records}
    seeds = tuple(range(config.seed, config.seed + config.seeds))
    by_cell = {(record.cell.arm, record.cell.seed): record for record in records}
    arms = dict[str, ArmSummary]()
    cost = dict[str, ArmCost]()
    for arm in parse_arms(config.arms):
        if arm not in present:
            continue
        of_seeds = [by_cell[arm, seed] for seed in seeds if (arm, seed) in by_cell]
        of_arm = cell_config(config, of_seeds[0].cell)
        arms[str(arm)] = _summary(of_arm, arm, of_seeds)
        cost[str(arm)] = _cost(of_seeds)
    return Report(
        nodes=tuple(node_names(config)),
        rounds=config.rounds,
        seeds=seeds,
        questions=config.round.questions,
        scoring=config.environment.scoring,
        arms=arms,
        cost=cost,
    )


def _summary(config: SimulationConfig, arm: Arm, records: Sequence[FinishedCell]) -> ArmSummary:
    rounds = [done for record in records for done in record.rounds]
    local = [frozenset(local_tasks(config, node)) for node in range(config.nodes)]
    rewards: list[tuple[float, ...]] = []
    node_rewards: list[tuple[float, ...]] = []
    for record in records:
        rewards.append(tuple(done.reward for done in record.rounds))
        of_nodes = (_reward_of(node, record) for node in range(config.nodes))
        node_rewards.append(tuple(of_nodes))
    totals = tuple(map(sum, rewards))
    last = [mean(of_seed[-LAST:]) / config.round.questions for of_seed in rewards]
    skipped = [done.skipped for done in rounds]
    rejected = [record.rounds[-1].rejected for record in records]
    return ArmSummary(
        local_groups=arm.local,
        external_groups=arm.external,
        cumulative_reward=totals,
        mean=mean(totals),
        ci95=ci95(totals),
        rewards=tuple(rewards),
        final_reward=tuple(last),
        informative_share=tuple(map(_informative_shares, records)),
        node_rewards=tuple(node_rewards),
        generated_tokens=_sum_of("generated_tokens", rounds),
        trained_tokens=_sum_of("trained_tokens", rounds),
        rollouts=_sum_of("rollouts", rounds),
        skipped=total(skipped),
        rejected=total(rejected),
        attack=None if config.attack.kind == "none" else _attack(records),
        held_out=held_out(records, local),
        metrics={name: _metric_of_seeds(name, records) for name in METRICS},
    )


def _sum_of(name: str, rounds: Sequence[CellRound]) -> int:
    """A metric that counts, over all these rounds."""
    return int(sum(done.metrics[name] for done in rounds))


def _reward_of(node: int, record: FinishedCell) -> float:
    return sum(done.node_rewards[node] or 0.0 for done in record.rounds)


def _informative_shares(record: FinishedCell) -> tuple[float, ...]:
    return tuple(done.metrics["informative_share"] for done in record.rounds)


def _metric_of_seeds(name: str, records: Sequence[FinishedCell]) -> tuple[tuple[float, ...], ...]:
    return tuple(_metric(name, record) for record in records)


def _metric(name: str, record: FinishedCell) -> tuple[float, ...]:
    """A metric of each round, rounded to six digits so that a report of many seeds stays small."""
    return tuple(float(f"{done.metrics.get(name, 0.0):.6g}") for done in record.rounds)


def _attack(records: Sequence[FinishedCell]) -> AttackSummary:
    totals = Counter(total([done.attack for record in records for done in record.rounds]))
    success: list[float] = []
    lengths: list[float] = []
    for record in records:
        last_rounds = record.rounds[-LAST:]
        success.append(_marked(last_rounds))
        lengths.append(mean([done.metrics["mean_length"] for done in last_rounds]))
    selected = totals["hostile selected"] + totals["honest selected"]
    return AttackSummary(
        success=tuple(success),
        length=tuple(lengths),
        honest_refused=_share(totals["honest refused"], totals["honest selected"]),
        hostile_refused=_share(totals["hostile refused"], totals["hostile selected"]),
        hostile_selected=_share(totals["hostile selected"], selected),
    )


def _marked(rounds: Sequence[CellRound]) -> float:
    totals = Counter(total([done.attack for done in rounds]))
    return _share(totals["marked"], totals["generated"]) or 0.0


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _cost(records: Sequence[FinishedCell]) -> ArmCost:
    rounds = [done for record in records for done in record.rounds]
    phases = dict.fromkeys(phase for done in rounds for phase in done.seconds)
    seconds_per_round = dict[str, float]()
    for phase in phases:
        seconds_per_round[phase] = mean([done.seconds.get(phase, 0.0) for done in rounds])
    return ArmCost(
        seconds_per_round=seconds_per_round,
        wall_seconds=tuple(_running(record, "round") for record in records),
        cpu_seconds=tuple(_running(record, "cpu") for record in records),
        peak_memory_mb=max(record.peak_mb for record in records),
    )


def _running(record: FinishedCell, phase: str) -> tuple[float, ...]:
    """Seconds spent in this phase up to the end of every round, rounded to 0.1 s."""
    of_rounds = (done.seconds.get(phase, 0.0) for done in record.rounds)
    return tuple(round(seconds, 1) for seconds in accumulate(of_rounds))


def t_975(degrees: int) -> float:
    """97.5 % quantile of Student's t. Beyond the table it expands around the normal quantile: right
    to 5 digits.
    """
    if degrees <= len(T_975):
        return T_975[degrees - 1]
    z = statistics.NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / math.pow(degrees, power) for power, term in enumerate(terms))


def ci95(values: Sequence[float]) -> float | None:
    """Half-width of the 95 % interval of the mean: mean ± this. None for fewer than two values."""
    if len(values) < 2:
        return None
    standard_error = statistics.stdev(values) / math.sqrt(len(values))
    return t_975(len(values) - 1) * standard_error
