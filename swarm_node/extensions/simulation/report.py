"""From finished cells to the numbers of report.json. What depends on the machine is under `cost`.

The reward of a node in a round is the sum over its questions of the group's mean reward. So it is at most the number of
questions. The reward of a round is the mean over the nodes that took part. The cumulative reward, the figure of the
SAPO paper, is the sum over rounds. Two runs with the same configuration differ only in `cost`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from swarm_node.extensions.simulation.arms import Arm, Record, cell_config, local_tasks, node_names, parse_arms
from swarm_node.extensions.simulation.cell import total
from swarm_node.extensions.simulation.events import CellRound
from swarm_node.extensions.simulation.learned import HeldOut, held_out
from swarm_node.extensions.simulation.settings import SimulationConfig
from swarm_node.extensions.simulation.statistics import ci95
from swarm_node.rollouts.groups import METRICS, mean

LAST = 10  # rounds that count as the end of a run


@dataclass(frozen=True, slots=True)
class AttackSummary:
    """The effect of an attack on the honest nodes. Shares are of counts, in [0, 1]; None if there was nothing."""

    success: tuple[float, ...]  # per seed: share of local completions with the payload, in the last rounds
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
    final_reward: tuple[float, ...]  # per seed: mean reward of a completion in the last rounds, in [0, 1]
    informative_share: tuple[tuple[float, ...], ...]  # per seed, per round: of local groups, non-zero advantage
    node_rewards: tuple[tuple[float, ...], ...]  # per seed, per node: cumulative over the rounds it took part in
    generated_tokens: int  # all nodes, rounds and seeds
    trained_tokens: int  # all nodes, rounds and seeds
    rollouts: int  # all nodes, rounds and seeds
    skipped: Mapping[str, int]  # questions and groups left out, by reason
    rejected: Mapping[str, int]  # messages refused, by reason
    attack: AttackSummary | None  # None where nobody attacks
    metrics: Mapping[str, tuple[tuple[float, ...], ...]]  # figure of reports.METRICS -> per seed, per round
    held_out: HeldOut | None = None  # None without --evaluate-every


@dataclass(frozen=True, slots=True)
class ArmCost:
    """Time and memory of an arm on this machine."""

    seconds_per_round: Mapping[str, float]  # by phase, all nodes, and "round" for the whole; mean over rounds, seeds
    wall_seconds: tuple[tuple[float, ...], ...]  # per seed, per round: since the start, without held-out questions
    cpu_seconds: tuple[tuple[float, ...], ...]  # the same of all cores, all processes of a cell; zeros for real nodes
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


def build_report(config: SimulationConfig, records: Sequence[Record]) -> Report:
    """Of the cells there are, which come in any order."""
    arms = [arm for arm in parse_arms(config.arms) if any(record.cell.arm == arm for record in records)]
    seeds = tuple(range(config.seed, config.seed + config.seeds))
    by_cell = {(record.cell.arm, record.cell.seed): record for record in records}
    rows = {arm: [by_cell[arm, seed] for seed in seeds if (arm, seed) in by_cell] for arm in arms}
    return Report(
        nodes=tuple(node_names(config)),
        rounds=config.rounds,
        seeds=seeds,
        questions=config.round.questions,
        scoring=config.environment.scoring,
        arms={str(arm): _summary(cell_config(config, rows[arm][0].cell), arm, rows[arm]) for arm in arms},
        cost={str(arm): _cost(rows[arm]) for arm in arms},
    )


def _summary(config: SimulationConfig, arm: Arm, records: Sequence[Record]) -> ArmSummary:
    totals = tuple(sum(done.reward for done in record.rounds) for record in records)
    rounds = [done for record in records for done in record.rounds]
    return ArmSummary(
        local_groups=arm.local,
        external_groups=arm.external,
        cumulative_reward=totals,
        mean=mean(totals),
        ci95=ci95(totals),
        rewards=tuple(tuple(done.reward for done in record.rounds) for record in records),
        final_reward=tuple(
            mean([done.reward for done in record.rounds[-LAST:]]) / config.round.questions for record in records
        ),
        informative_share=tuple(tuple(done.metrics["informative_share"] for done in r.rounds) for r in records),
        node_rewards=tuple(
            tuple(sum(done.node_rewards[node] or 0.0 for done in record.rounds) for node in range(config.nodes))
            for record in records
        ),
        generated_tokens=int(sum(done.metrics["generated_tokens"] for done in rounds)),
        trained_tokens=int(sum(done.metrics["trained_tokens"] for done in rounds)),
        rollouts=int(sum(done.metrics["rollouts"] for done in rounds)),
        skipped=total([done.skipped for done in rounds]),
        rejected=total([record.rounds[-1].rejected for record in records]),
        attack=None if config.attack.kind == "none" else _attack(records),
        held_out=held_out(records, [frozenset(local_tasks(config, node)) for node in range(config.nodes)]),
        metrics={  # with six digits, so that a report of many seeds stays small
            name: tuple(tuple(float(f"{r.metrics.get(name, 0.0):.6g}") for r in record.rounds) for record in records)
            for name in METRICS
        },
    )


def _attack(records: Sequence[Record]) -> AttackSummary:
    totals = Counter(total([done.attack for record in records for done in record.rounds]))
    return AttackSummary(
        success=tuple(_marked(record.rounds[-LAST:]) for record in records),
        length=tuple(mean([done.metrics["mean_length"] for done in record.rounds[-LAST:]]) for record in records),
        honest_refused=_share(totals["honest refused"], totals["honest selected"]),
        hostile_refused=_share(totals["hostile refused"], totals["hostile selected"]),
        hostile_selected=_share(totals["hostile selected"], totals["hostile selected"] + totals["honest selected"]),
    )


def _marked(rounds: Sequence[CellRound]) -> float:
    totals = Counter(total([done.attack for done in rounds]))
    return _share(totals["marked"], totals["generated"]) or 0.0


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _cost(records: Sequence[Record]) -> ArmCost:
    rounds = [done for record in records for done in record.rounds]
    phases = dict.fromkeys(phase for done in rounds for phase in done.seconds)
    return ArmCost(
        seconds_per_round={phase: mean([done.seconds.get(phase, 0.0) for done in rounds]) for phase in phases},
        wall_seconds=tuple(_running(record, "round") for record in records),
        cpu_seconds=tuple(_running(record, "cpu") for record in records),
        peak_memory_mb=max(record.peak_mb for record in records),
    )


def _running(record: Record, phase: str) -> tuple[float, ...]:
    """Seconds until the end of every round, with a tenth of a second."""
    return tuple(round(total, 1) for total in accumulate(done.seconds.get(phase, 0.0) for done in record.rounds))
