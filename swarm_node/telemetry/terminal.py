"""One running node on a terminal: a live view if the terminal can show it, else a line per round.
Not for simulations.

`node_terminal` chooses once; both are ordinary sinks.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from swarm_node.common.errors import printable
from swarm_node.common.terminal import one_line
from swarm_node.rollouts.curriculum import summary
from swarm_node.rollouts.groups import METRICS, Figure, Overlap, RoundReport, figures
from swarm_node.telemetry.events import (
    CheckpointSaved,
    Chosen,
    Event,
    Listening,
    Notice,
    Resting,
    RoundDone,
    RunFinished,
    RunStarted,
    Sink,
    Validated,
    Warned,
)
from swarm_node.telemetry.learning import (
    HISTORY,
    Learning,
    TaskLearning,
    moving_average,
    sparkline,
)

WINDOW, CURVE_WINDOW = 20, 5  # rounds of the moving averages: of all tasks, of one
SPARK_WIDTH, CURVE_WIDTH = 26, 20  # characters
NAME_CHARS = 8  # the last characters of a peer id, which are shown
LISTED = 1000  # characters of a line that names the tasks that are practised
SHOWN_SHARE = 0.05  # share of a round's time above which a phase is shown
# Lines of the panel that are neither figures nor tasks: its frame, an empty line, the names of
# columns
BESIDE = 4
ECHO, FRAME = 2, 6  # columns left free beside the panel, and taken by its frame beside a title
LEAVING = "Ctrl-C stops after this round, and saves"


class NodeView(Sink, Protocol):
    """A sink that can show a note at once, in the middle of whatever it does."""

    def note(self, text: str) -> None:
        """Show this note. A signal handler calls it."""
        ...


def node_terminal(console: Console) -> NodeView:
    """The view that suits this console."""
    return LiveNode(console) if console.is_terminal else PlainNode(console)


def say(console: Console, text: str, style: str = "") -> None:
    """Print one line, whatever its length; rich does not read brackets in it as markup."""
    console.print(Text(one_line(text), style=style), soft_wrap=True, highlight=False)


class PlainNode(Sink):
    """A line per round, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def take(self, event: Event) -> None:
        if line := plain_line(event):
            say(self._console, line)

    def note(self, text: str) -> None:
        with suppress(OSError, ValueError):  # no terminal or pipe any more
            os.write(self._console.file.fileno(), f"{one_line(text)}\n".encode())


def plain_line(event: Event) -> str:  # noqa: PLR0911  (a case per kind of event)
    """The line of this event; "" where there is none."""
    match event:
        case RunStarted(title=title, folder=folder, facts=facts):
            return ", ".join(
                [f"{title} in {folder}", *(f"{key} {value}" for key, value in facts.items())]
            )
        case RoundDone(report=report, alone=alone):
            return _round_line(report, alone)
        case CheckpointSaved(round=number, path=path):
            return f"checkpoint after {number} rounds: {path}"
        case Validated(round=number, reward=reward, questions=questions, best=best):
            note = ", the best so far" if best else ""
            return (
                f"validation after {number} rounds: reward {reward:.3f} on {questions} "
                f"held-out questions{note}"
            )
        case Chosen(round=number):
            return f"tasks after {number} round{'s' * (number != 1)}: {_chosen(event)}"
        case Listening(addresses=addresses):
            return f"others reach this node at {addresses[0]}" if addresses else ""
        case Resting(reason=reason):
            return f"resting: {reason}" if reason else "continuing"
        case Notice(text=text) | RunFinished(text=text):
            return text
        case Warned(text=text):
            return f"warning: {text}"
        case _:
            return ""


def _chosen(event: Chosen) -> str:
    return printable(summary(event.practised, event.dropped, event.unasked), LISTED)


def _round_line(report: RoundReport, alone: str = "") -> str:
    heard = _written(" ({} heard)", report.external_considered or None)
    parts = [
        f"round {report.round}",
        _written("reward {:.3f}", report.reward),
        _written("informative {:.0%}", report.informative_share),
        f"external {report.external_informative}{heard}",
        f"{report.rollouts / wall_seconds(report):.1f} rollouts/s",
    ]
    if alone:
        parts.append(f"alone: {alone}")
    if report.overlap is not None:
        parts.append(_overlap(report.step.staleness, report.overlap))
    if report.step.halvings:
        parts.append("out of device memory: micro-batches halved")
    if report.skipped:
        parts.append(f"skipped {reasons(report.skipped)}")
    if report.rejected:
        parts.append(f"rejected {reasons(report.rejected)}")
    return "  ".join(filter(None, parts))


def wall_seconds(report: RoundReport) -> float:
    """Seconds that the round took; never 0."""
    phases = sum(report.seconds.values())
    seconds = phases if report.overlap is None else report.overlap.wall
    return max(seconds, 1e-9)


def _overlap(staleness: Figure, overlap: Overlap) -> str:
    return (
        f"{_written('staleness {:.1f}  ', staleness)}generator busy {overlap.generating:.0%}  "
        f"trainer busy {overlap.training:.0%}  waiting {overlap.waiting}"
    )


def _written(form: str, figure: Figure) -> str:
    """The figure in words; "" where the round has none, which is not 0."""
    return "" if figure is None else form.format(figure)


def reasons(counts: Mapping[str, int]) -> str:
    """Counts by reason, the most frequent first."""
    return ", ".join(f"{count} {reason}" for reason, count in Counter(counts).most_common())


class LiveNode:
    """A panel that is redrawn in place. Notices scroll by above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._title, self._facts = "node", list[str]()
        self._rewards: list[float] = []
        self._skipped: Counter[str] = Counter()
        self._latest: RoundDone | None = None
        self._learning = Learning()
        self._checkpoint = "none yet"
        self._resting, self._note, self._chosen = "", LEAVING, ""
        # The redrawn panel disappears when the view ends, and `close` prints its last state once.
        self._live = Live(
            get_renderable=self._fitting, console=console, refresh_per_second=4, transient=True
        )
        self._live.start()

    def take(self, event: Event) -> None:
        self._learning.take(event)
        match event:
            case RunStarted(title=title, folder=folder, facts=facts, rounds=rounds):
                self._title = title
                self._checkpoint = (
                    f"after {rounds} rounds: it continues from there"
                    if rounds
                    else self._checkpoint
                )
                self._facts = [folder, *(f"{key} {value}" for key, value in facts.items() if value)]
            case RoundDone(report=report):
                self._latest = event
                if report.reward is not None:
                    self._rewards = [*self._rewards[-HISTORY + 1 :], report.reward]
                self._skipped.update(report.skipped)
            case CheckpointSaved(round=number, path=path):
                self._checkpoint = f"after {number} rounds, {path}"
            case Resting(reason=reason):
                self._resting = reason
            case Chosen():
                self._chosen = _chosen(event)
            case Warned():
                say(self._console, plain_line(event), style="yellow")
            case Validated():
                pass  # the tasks show it
            case _:
                if line := plain_line(event):
                    say(self._console, line)

    def note(self, text: str) -> None:
        # The panel is drawn four times a second: to print here could break into a line
        self._note = text

    def close(self) -> None:
        self._live.stop()
        if self._latest is not None:
            self._note = ""
            self._console.print(self.render())

    def render(self) -> Panel:
        """The panel as of now."""
        if self._latest is None:
            figures = _rows(
                {"round": "the first ...", "resting": self._resting, "leave": self._note}
            )
        else:
            figures = self._figures(self._latest)
        parts: list[RenderableType] = [figures]
        if (example := self._example()) is not None:
            parts += [Text(), example]
        if self._learning.tasks:
            taken = figures.row_count + (example.row_count + 1 if example else 0)
            room = self._console.height - 1 - BESIDE - taken
            parts[1:1] = [Text(), self._tasks(max(1, room))]
        body, title = Group(*parts), Text(self._title)
        facts = Text(_fitted(self._facts, self._console.width - ECHO - FRAME), no_wrap=True)
        return Panel(body, title=title, title_align="left", subtitle=facts, subtitle_align="left")

    def _fitting(self) -> Panel:
        """The panel as it is redrawn. It would leave a border behind if it were higher than the
        screen, or so wide that the ^C of a terminal began a line of its own.
        """
        panel = self.render()
        panel.width = max(8, self._console.width - ECHO)
        if len(self._console.render_lines(panel)) >= self._console.height:
            panel.height = self._console.height - 1
        return panel

    def _figures(self, latest: RoundDone) -> Table:
        report = latest.report
        overlap = "" if report.overlap is None else _overlap(report.step.staleness, report.overlap)
        informative = _written("; {:.0%} of local ones informative", report.informative_share)
        return _rows(
            {
                "round": _speed(report),
                "time": _shares(report.seconds),
                "reward": self._course_of_rewards(report.reward),
                "trained on": (
                    f"{report.local_informative} local + {report.external_informative} "
                    f"external groups{informative}"
                ),
                "update": _shown(report),
                "tasks": self._chosen,
                "sharing": _sharing(latest, self._learning),
                "alone": latest.alone,
                "overlap": overlap,
                "skipped": reasons(self._skipped),
                "rejected": reasons(report.rejected),
                "checkpoint": self._checkpoint,
                "resting": self._resting,
                "leave": self._note,
            }
        )

    def _course_of_rewards(self, latest: Figure) -> str:
        """The reward of the latest round, the mean of the last ones, and a curve."""
        means = moving_average(self._rewards, WINDOW)
        words = _written("{:.3f}   ", latest)
        if means:
            words += f"mean of {min(len(means), WINDOW)} rounds {means[-1]:.3f}   "
        return words + sparkline(means, SPARK_WIDTH)

    def _tasks(self, room: int) -> Table:
        """A table of at most `room` rows: the tasks that were practised last for the first time,
        and a row that counts the others.
        """
        tasks = list(self._learning.tasks.items())
        left = max(0, len(tasks) - room + 1) if len(tasks) > room else 0
        table = Table.grid(padding=(0, 2))
        questions = "held out" if self._learning.held_out else "in training"
        titles = questions, "before", "now", "curve", "from others"
        table.add_row(*(Text(title, style="dim") for title in titles))
        for task, learning in tasks[left:]:
            name = Text(task, no_wrap=True, overflow="ellipsis")
            table.add_row(name, *map(Text, _course(learning)))
        if left:
            table.add_row(Text(f"and {left} more", style="dim"))
        return table

    def _example(self) -> Table | None:
        if (found := self._learning.example) is None:
            return None
        corrected, teacher = found
        answers = (
            f"at first {printable(corrected.before.strip(), 24)!r}, now "
            f"{printable(corrected.now.strip(), 24)!r}"
        )
        taught = f"   taught by {teacher[-NAME_CHARS:]}" if teacher else ""
        return _rows({"learned": printable(corrected.question, 160), "": answers + taught})


def _rows(values: Mapping[str, str]) -> Table:
    """A line for each name, without those that have no value, such as the overlap of a synchronous
    node.
    """
    table = Table.grid(padding=(0, 2))
    for name, value in values.items():
        if value:
            shown = Text(value, overflow="ellipsis", no_wrap=True)
            table.add_row(Text(name, style="dim"), shown)
    return table


def _speed(report: RoundReport) -> str:
    """The number of a round, its seconds, and what it generated in each of them."""
    seconds = wall_seconds(report)
    rollouts, tokens = report.rollouts / seconds, report.generated_tokens / seconds
    return f"{report.round}   {seconds:.1f} s   {rollouts:.1f} rollouts/s   {tokens:.0f} tokens/s"


def _course(learning: TaskLearning) -> tuple[str, str, str, str]:
    """What a task's row shows: the reward at first and now, a curve, and the share of others."""
    (before, now), others = learning.span, learning.from_others
    means = moving_average(learning.rewards, CURVE_WINDOW)
    curve = sparkline(means, CURVE_WIDTH, 1.0).ljust(CURVE_WIDTH)
    at_first = "" if learning.once else f"{before:.2f}"
    from_others = "" if others is None else f"{others:.0%}"
    return at_first, f"{now:.2f}", curve, from_others


def _fitted(facts: Sequence[str], width: int) -> str:
    """Joins as many of the facts as fit into the width, the first ones first. The first fact is
    kept even if it does not fit.
    """
    kept = list(facts)
    while len(kept) > 1 and len("   ".join(kept)) > width:
        kept.pop()
    return "   ".join(kept)


def _sharing(latest: RoundDone, learning: Learning) -> str:
    """How many external groups wait, how many peers are connected, and which part of the
    informative groups so far came from others.
    """
    waiting = latest.report.pool_size + (latest.waiting or 0)
    peers = "" if latest.peers is None else f"   {latest.peers} peer{'s' * (latest.peers != 1)}"
    return f"{waiting} external groups wait{peers}{_from_others(learning)}"


def _from_others(learning: Learning) -> str:
    others = learning.groups_of_others
    total = learning.groups_of_its_own + others
    return f"   {others} of {total} groups so far were others'" if others else ""


def _shown(report: RoundReport) -> str:
    """The metrics that ask to be shown."""
    values = figures(report)
    forms = {name: metric.shown for name, metric in METRICS.items() if metric.shown}
    shown = (_written(form, values[name]) for name, form in forms.items())
    return "   ".join(filter(None, shown))


def _shares(seconds: Mapping[str, float]) -> str:
    total = max(sum(seconds.values()), 1e-9)
    return ", ".join(
        f"{phase} {spent / total:.0%}"
        for phase, spent in seconds.items()
        if spent / total > SHOWN_SHARE
    )
