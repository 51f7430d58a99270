"""The result of a simulation as tables for a terminal, from the numbers of the report. They show no
factor between arms: it depends on rates, baselines and seeds, so a single run cannot tell it.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, repeat, starmap

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
    rewards = _table(ARMS, starmap(_reward, arms))
    parts: list[RenderableType] = [Text(_caption(report)), rewards]
    if any(arm.attack for _, arm in arms):
        attacked = chain.from_iterable(starmap(_attack, arms))
        parts += [Text(ATTACK_WORDS), _table(ATTACK, attacked)]
    if any(arm.held_out for _, arm in arms):
        asked = chain.from_iterable(starmap(_held_out, arms))
        parts += [Text(HELD_OUT_WORDS), _table(HELD_OUT, asked)]
    elif any(" " in name for name in report.nodes):  # nodes differ
        of_nodes = (_rewards_of(node, label, report) for node, label in enumerate(report.nodes))
        columns = "node", *map(words_of, report.arms)
        words = "Cumulative reward of each node, mean over seeds"
        parts += [Text(words), _table(columns, of_nodes)]
    costs = (_cost(name, report) for name in report.arms)
    parts += [Text(COST_WORDS), _table(COST, costs)]
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
        rewards = arm.cumulative_reward, arm.final_reward
        ends: Sequence[Iterable[object]] = [repeat("")] * 4
        if held_out := arm.held_out:
            ends = held_out.final, held_out.final_local, held_out.final_other, held_out.area
        columns: list[Iterable[object]] = [report.seeds, *rewards, *_took(name, report), *ends]
        for row in zip(*columns, strict=False):
            lines.append(",".join([name, *map(_csv_field, row)]))
    return "\n".join(lines) + "\n"


def _csv_field(value: object) -> str:
    return "" if value is None else str(value)


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
    held_out = arm.held_out
    if held_out is None:
        return []
    ends = held_out.final, held_out.final_local, held_out.final_other
    figures = list(map(_end, ends, held_out.final_ci95))
    figures.append(_end(held_out.area, ci95(held_out.area)))
    trained_tokens = mean([of_seed[-1] for of_seed in held_out.trained_tokens])
    tokens = trained_tokens / len(arm.node_rewards[0])
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
