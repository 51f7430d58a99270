"""The result of a simulation as tables for a terminal, from the numbers of the report."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from swarm_node.extensions.simulation.report import LAST, ArmSummary, Report
from swarm_node.extensions.simulation.statistics import ci95
from swarm_node.rollouts.reports import mean

HELD_OUT = """\
Held-out accuracy at the end, of all tasks of the swarm, of those that a node asks
itself, and of those that only others ask. Area: of all tasks, mean over rounds."""
VARIETY = """\
Pass@k: questions with a right one of k completions. Distinct: texts, of these. Agreement:
of two nodes. Entropy: nats per token. Adoption: rounds from the first node that knew a
task to half of them, and for how many of all tasks and seeds that came."""
COLUMNS = ("local/external", "final reward", "cumulative reward", "informative")


def arms_table(report: Report) -> Table:
    """A row for each arm. No factor between arms: rates, baselines and seeds decide it, and a single run knows none."""
    table = Table()
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
    for name, arm in report.arms.items():
        informative = mean([mean(shares) for shares in arm.informative_share])
        table.add_row(name, _mean_text(arm.final_reward), plus_minus(arm), f"{informative:.1%}")
    return table


def attack_table(report: Report) -> Table:
    """The effect of the attack in every arm, beside the final accuracy of the honest nodes."""
    table = Table()
    for column in ("local/external", "attack success", "accuracy", "tokens", "honest refused", "hostile refused"):
        table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
    for name, arm in report.arms.items():
        if arm.attack:
            table.add_row(
                name,
                f"{mean(arm.attack.success):.3f}",
                f"{mean(arm.final_reward):.3f}",
                f"{mean(arm.attack.length):.1f}",
                share_text(arm.attack.honest_refused),
                share_text(arm.attack.hostile_refused),
            )
    return table


def held_out_table(report: Report) -> Table:
    """What the nodes of every arm know at the end, and of whose tasks."""
    table = Table()
    for column in ("local/external", "all tasks", "local tasks", "others' tasks", "area"):
        table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
    for name, arm in report.arms.items():
        if known := arm.held_out:
            means = (known.final, known.final_local, known.final_other, known.area)
            table.add_row(name, *map(_mean_text, means))
    return table


def variety_table(report: Report) -> Table:
    """How the held-out completions of every arm differ at the end, and how fast tasks spread."""
    table = Table()
    for column in ("local/external", "pass@k", "distinct", "agreement", "entropy", "adoption"):
        table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
    for name, arm in report.arms.items():
        if known := arm.held_out:
            ends = {figure: mean([row[-1] for row in rows]) for figure, rows in known.figures.items()}
            shown = [ends.get(figure) for figure in ("pass_at_k", "distinct", "agreement", "entropy")]
            spread = _adoption_text([rounds for rows in known.adoption.values() for rounds in rows])
            table.add_row(name, *("-" if value is None else f"{value:.3f}" for value in shown), spread)
    return table


def _mean_text(values: Sequence[float | None]) -> str:
    """Mean over seeds and the half-width of its interval."""
    found = [value for value in values if value is not None]
    half = ci95(found)
    return (f"{mean(found):.3f}" if found else "-") + ("" if half is None else f" ± {half:.3f}")


def _adoption_text(rounds: Sequence[int | None]) -> str:
    """Mean rounds, and of how many of the tasks and seeds."""
    found = [value for value in rounds if value is not None]
    return (f"{mean(found):.0f} rounds, " if found else "") + f"{len(found)} of {len(rounds)}"


def share_text(share: float | None) -> str:
    """As a percentage; a dash where there is none."""
    return "-" if share is None else f"{share:.1%}"


def nodes_table(report: Report) -> Table:
    """The reward of every node of a mixed swarm in every arm."""
    table = Table()
    table.add_column("node")
    for name in report.arms:
        table.add_column(name, justify="right")
    for node, label in enumerate(report.nodes):
        table.add_row(
            label, *(f"{mean([seed[node] for seed in arm.node_rewards]):.1f}" for arm in report.arms.values())
        )
    return table


def result(report: Report, *, mixed: bool) -> RenderableType:
    """What is printed at the end."""
    parts: list[RenderableType] = [Text(_caption(report)), arms_table(report)]
    if any(arm.attack for arm in report.arms.values()):
        words = "Attack success: share of the honest nodes' completions with the payload; it and accuracy at the end."
        parts += [Text(words), attack_table(report)]
    if any(arm.held_out for arm in report.arms.values()):
        parts += [Text(HELD_OUT), held_out_table(report), Text(VARIETY), variety_table(report)]
    if mixed:
        parts += [Text("Cumulative reward of each node, mean over seeds"), nodes_table(report)]
    return Group(*parts)


def plus_minus(arm: ArmSummary) -> str:
    """Mean and half-width of its interval."""
    digits = 1 if arm.mean >= 1 else 3
    return f"{arm.mean:.{digits}f}" + ("" if arm.ci95 is None else f" ± {arm.ci95:.{digits}f}")


def _caption(report: Report) -> str:
    several = len(report.seeds) > 1
    interval = f"{len(report.seeds)} seeds, ± is a 95 % interval" if several else "1 seed, so this may be chance"
    right = "share of right completions" if report.scoring == "exact" else "mean reward of a completion"
    most = report.questions * report.rounds
    return (
        f"{len(report.nodes)} nodes, {report.rounds} rounds, {interval}. The most a node can earn is {most}.\n"
        f"Final reward: {right} in the last {LAST} rounds. Informative: share of local groups."
    )
