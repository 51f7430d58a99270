"""The result of a simulation as tables for a terminal, from the numbers of the report. No factor between arms: rates,
baselines and seeds decide it, and a single run knows none."""

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from swarm_node.extensions.simulation.report import LAST, ArmSummary, Report
from swarm_node.extensions.simulation.statistics import ci95
from swarm_node.rollouts.reports import mean

ARMS = ("local/external", "final reward", "cumulative reward", "informative")
ATTACK = ("local/external", "attack success", "accuracy", "tokens", "honest refused", "hostile refused")
HELD_OUT = ("local/external", "all tasks", "own tasks", "others' tasks", "area", "trained tokens")
HELD_OUT_WORDS = """\
Held-out accuracy at the end, of all tasks of the swarm, of those that a node asks itself,
and of those that only others ask. Area: of all tasks, mean over rounds. Tokens: per node."""
ATTACK_WORDS = "Attack success: share of the honest nodes' completions with the payload; it and accuracy at the end."


def result(report: Report) -> RenderableType:
    """What is printed at the end."""
    arms = list(report.arms.items())
    parts: list[RenderableType] = [Text(_caption(report)), _table(ARMS, (_reward(*each) for each in arms))]
    if any(arm.attack for _, arm in arms):
        parts += [Text(ATTACK_WORDS), _table(ATTACK, (row for name, arm in arms for row in _attack(name, arm)))]
    if any(arm.held_out for _, arm in arms):
        rows = (row for name, arm in arms for row in _held_out(name, arm, len(report.nodes)))
        parts += [Text(HELD_OUT_WORDS), _table(HELD_OUT, rows)]
    elif any(" " in name for name in report.nodes):  # nodes differ
        rows = (
            (label, *(f"{mean([seed[node] for seed in arm.node_rewards]):.1f}" for _, arm in arms))
            for node, label in enumerate(report.nodes)
        )
        parts += [Text("Cumulative reward of each node, mean over seeds"), _table(("node", *report.arms), rows)]
    return Group(*parts)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table()
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _reward(name: str, arm: ArmSummary) -> tuple[str, ...]:
    digits = 1 if arm.mean >= 1 else 3
    informative = mean([mean(shares) for shares in arm.informative_share])
    return (
        name,
        plus_minus(mean(arm.final_reward), ci95(arm.final_reward)),
        plus_minus(arm.mean, arm.ci95, digits),
        f"{informative:.1%}",
    )


def _attack(name: str, arm: ArmSummary) -> list[tuple[str, ...]]:
    if not (attack := arm.attack):
        return []
    refused = ("-" if share is None else f"{share:.1%}" for share in (attack.honest_refused, attack.hostile_refused))
    ends = (f"{mean(attack.success):.3f}", f"{mean(arm.final_reward):.3f}", f"{mean(attack.length):.1f}")
    return [(name, *ends, *refused)]


def _held_out(name: str, arm: ArmSummary, nodes: int) -> list[tuple[str, ...]]:
    if not (known := arm.held_out):
        return []
    ends = zip((known.final, known.final_local, known.final_other), known.final_ci95, strict=True)
    tokens = mean([row[-1] for row in known.trained_tokens]) / nodes
    return [(name, *(_end(seeds, half) for seeds, half in ends), _end(known.area, ci95(known.area)), f"{tokens:,.0f}")]


def _end(seeds: Sequence[float | None], half: float | None) -> str:
    found = [value for value in seeds if value is not None]
    return plus_minus(mean(found), half) if found else "-"


def plus_minus(value: float, half: float | None, digits: int = 3) -> str:
    """A mean, and the half-width of its interval if it has one."""
    return f"{value:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


def _caption(report: Report) -> str:
    several = len(report.seeds) > 1
    interval = f"{len(report.seeds)} seeds, ± is a 95 % interval" if several else "1 seed, so this may be chance"
    right = "share of right completions" if report.scoring == "exact" else "mean reward of a completion"
    most = report.questions * report.rounds
    return (
        f"{len(report.nodes)} nodes, {report.rounds} rounds, {interval}. The most a node can earn is {most}.\n"
        f"Final reward: {right} in the last {LAST} rounds. Informative: share of local groups."
    )
