"""The result of a simulation as tables for a terminal, from the numbers of the report. They show no
factor between arms: it depends on rates, baselines and seeds, so a single run cannot tell it.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from swarm_node.rollouts.groups import mean
from swarm_node.simulation.arms import words_of
from swarm_node.simulation.report import LAST, ArmSummary, Report, ci95

ARMS = ("local/external", "final reward", "cumulative reward", "informative")
COST = ("local/external", "generated tokens", "trained tokens", "CPU seconds", "seconds", "MB")
COST_WORDS = (
    "What an arm cost: all nodes of a seed together, the mean over seeds. MB: the most that one "
    "seed took."
)
PER_SEED = (
    "arm,seed,cumulative_reward,final_reward,generated_tokens,trained_tokens,cpu_seconds,wall_seconds,"
    "all_tasks,own_tasks,other_tasks,area"
)
ATTACK = (
    "local/external",
    "attack success",
    "accuracy",
    "tokens",
    "honest refused",
    "hostile refused",
)
HELD_OUT = ("arm", "all tasks", "own tasks", "others' tasks", "area", "tokens")
HELD_OUT_WORDS = """\
Accuracy on held-out questions at the end: on all tasks of the swarm, on those
that a node practises itself, and on those that only others practise. ± is a
95 % interval over seeds, or over nodes if there is one seed. Area: accuracy on
all tasks, mean over rounds. Tokens: those that each node trained on."""
ATTACK_WORDS = (
    "Attack success: share of the honest nodes' completions that contain the payload. It and the "
    "accuracy are those at the end."
)


def result(report: Report) -> RenderableType:
    """The tables that a simulation prints at its end, before the conclusion."""
    arms = list(report.arms.items())
    parts: list[RenderableType] = [
        Text(_caption(report)),
        _table(ARMS, (_reward(*each) for each in arms)),
    ]
    if any(arm.attack for _, arm in arms):
        parts += [
            Text(ATTACK_WORDS),
            _table(ATTACK, (row for name, arm in arms for row in _attack(name, arm))),
        ]
    if any(arm.held_out for _, arm in arms):
        rows = (row for name, arm in arms for row in _held_out(name, arm))
        parts += [Text(HELD_OUT_WORDS), _table(HELD_OUT, rows)]
    elif any(" " in name for name in report.nodes):  # nodes differ
        of_nodes = (_rewards_of(node, label, report) for node, label in enumerate(report.nodes))
        parts += [
            Text("Cumulative reward of each node, mean over seeds"),
            _table(("node", *map(words_of, report.arms)), of_nodes),
        ]
    parts += [Text(COST_WORDS), _table(COST, (_cost(name, report) for name, _ in arms))]
    return Group(*parts)


def _rewards_of(node: int, label: str, report: Report) -> tuple[str, ...]:
    """The row of one node: its cumulative reward in each arm, as a mean over seeds."""
    row = [label]
    for arm in report.arms.values():
        of_seeds = [seed[node] for seed in arm.node_rewards if node < len(seed)]
        row.append(f"{mean(of_seeds):.1f}")
    return tuple(row)


def per_seed(report: Report) -> str:
    """The figures of each arm and seed as CSV. A cell is empty where there is no figure."""
    lines = [PER_SEED]
    for name, arm in report.arms.items():
        known = arm.held_out
        ends = (
            (known.final, known.final_local, known.final_other, known.area)
            if known
            else [repeat("")] * 4
        )
        rows = zip(
            report.seeds,
            arm.cumulative_reward,
            arm.final_reward,
            *_took(name, report),
            *ends,
            strict=False,
        )
        for row in rows:
            figures = ["" if value is None else str(value) for value in row]
            lines.append(",".join([name, *figures]))
    return "\n".join(lines) + "\n"


def _took(name: str, report: Report) -> list[Sequence[float]]:
    """Per seed, of all nodes: tokens generated, tokens trained on, CPU seconds and wall-clock
    seconds.
    """
    arm, cost = report.arms[name], report.cost[name]
    generated = [round(sum(rounds)) for rounds in arm.metrics["generated_tokens"]]
    trained = [round(sum(rounds)) for rounds in arm.metrics["trained_tokens"]]
    cpu = [rounds[-1] for rounds in cost.cpu_seconds]
    wall = [rounds[-1] for rounds in cost.wall_seconds]
    return [generated, trained, cpu, wall]


def _cost(name: str, report: Report) -> tuple[str, ...]:
    figures: list[str] = []
    for values in _took(name, report):
        figures.append(plus_minus(mean(values), ci95(values), 0) if any(values) else "-")
    return (words_of(name), *figures, f"{report.cost[name].peak_memory_mb:.0f}")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table()
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _reward(name: str, arm: ArmSummary) -> tuple[str, ...]:
    digits = 1 if arm.mean >= 1 else 3
    half = arm.ci95 if len(arm.rewards) > 1 else ci95(arm.node_rewards[0])
    informative = mean([mean(shares) for shares in arm.informative_share])
    final = plus_minus(mean(arm.final_reward), ci95(arm.final_reward))
    return (words_of(name), final, plus_minus(arm.mean, half, digits), f"{informative:.1%}")


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _attack(name: str, arm: ArmSummary) -> list[tuple[str, ...]]:
    if not (attack := arm.attack):
        return []
    refused = (_share(attack.honest_refused), _share(attack.hostile_refused))
    ends = (
        f"{mean(attack.success):.3f}",
        f"{mean(arm.final_reward):.3f}",
        f"{mean(attack.length):.1f}",
    )
    return [(words_of(name), *ends, *refused)]


def _held_out(name: str, arm: ArmSummary) -> list[tuple[str, ...]]:
    if not (known := arm.held_out):
        return []
    ends = zip((known.final, known.final_local, known.final_other), known.final_ci95, strict=True)
    tokens = mean([row[-1] for row in known.trained_tokens]) / len(arm.node_rewards[0])
    figures = [_end(seeds, half) for seeds, half in ends]
    figures.append(_end(known.area, ci95(known.area)))
    return [(words_of(name), *figures, f"{tokens:,.0f}")]


def _end(seeds: Sequence[float | None], half: float | None) -> str:
    found = [value for value in seeds if value is not None]
    return plus_minus(mean(found), half) if found else "-"


def plus_minus(value: float, half: float | None, digits: int = 3) -> str:
    """A mean, and the half-width of its interval if it has one."""
    return f"{value:,.{digits}f}" + ("" if half is None else f" ± {half:,.{digits}f}")


def _caption(report: Report) -> str:
    seeds = len(report.seeds)
    interval = (
        f"{seeds} seeds, ± is a 95 % interval"
        if seeds > 1
        else "1 seed, ± is over nodes: another seed may differ"
    )
    right = (
        "share of correct completions"
        if report.scoring == "exact"
        else "mean reward of a completion"
    )
    most = report.questions * report.rounds
    return (
        f"{len(report.nodes)} nodes, {report.rounds} rounds, {interval}. The most a node can earn "
        f"is {most}.\n"
        f"Final reward: {right} in the last {LAST} rounds. Informative: share of local groups."
    )
