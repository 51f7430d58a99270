"""A running simulation on a terminal: a live table if the terminal can show it, else a line now and then.

Both show arm, seed, round, reward and speed of each running cell, and the time left for all.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from swarm_node.telemetry.events import CellFailed, CellFinished, CellRound, CellStarted, Event, Notice, Sink, Warned
from swarm_node.telemetry.series import moving_average, sparkline
from swarm_node.telemetry.terminal import say

WINDOW = 10  # rounds of the moving average and of the speed
SPARK_WIDTH = 24  # characters
BAR_WIDTH = 16  # characters
LINES_PER_CELL = 10  # of plain output

CellName = tuple[str, int]  # arm and seed


@dataclass(slots=True)
class CellView:
    """What is shown of a running cell."""

    rewards: list[float] = field(default_factory=list)  # per completion, in [0, 1]
    recent: list[CellRound] = field(default_factory=list)

    def take(self, done: CellRound, questions: int) -> None:
        self.rewards.append(done.reward / questions)
        self.recent = [*self.recent[1 - WINDOW :], done]

    @property
    def smooth(self) -> list[float]:
        return moving_average(self.rewards, WINDOW)

    @property
    def speed(self) -> float:
        """Rollouts a second, over the last rounds."""
        seconds = sum(done.seconds.get("round", 0.0) for done in self.recent)
        return sum(done.rollouts for done in self.recent) / seconds if seconds else 0.0


class Progress:
    """What both views know. `cells` counts those still to run, without those that an earlier run finished."""

    def __init__(self, cells: int, rounds: int, questions: int, clock: Callable[[], float]) -> None:
        self.rounds = rounds
        self.running: dict[CellName, CellView] = {}
        self.earned: dict[str, list[float]] = {}  # cumulative rewards of finished cells, by arm
        self._cells, self._questions, self._clock = cells, questions, clock
        self._started = clock()
        self._done = 0  # rounds, of all cells

    def take(self, event: Event) -> None:
        match event:
            case CellStarted():
                self.running[event.arm, event.seed] = CellView()
            case CellRound():
                self._done += 1
                self.running[event.arm, event.seed].take(event, self._questions)
            case CellFinished():
                self.running.pop((event.arm, event.seed), None)
                self.earned.setdefault(event.arm, []).append(event.cumulative_reward)
            case CellFailed():
                view = self.running.pop((event.arm, event.seed), CellView())
                self._done += self.rounds - len(view.rewards)  # the cell has ended: its other rounds are not waited for

    def time_left(self) -> str:
        """At the speed so far, including start-up. Unknown before the first round."""
        if not self._done:
            return "..."
        left = self._cells * self.rounds - self._done
        return duration((self._clock() - self._started) / self._done * left)

    def elapsed(self) -> str:
        """Since the start, for people."""
        return duration(self._clock() - self._started)


def duration(seconds: float) -> str:
    """For people: 1:02 or 1:00:02."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def simulation_terminal(
    console: Console, cells: int, rounds: int, questions: int, clock: Callable[[], float] = time.monotonic
) -> Sink:
    """The view that suits this console."""
    progress = Progress(cells, rounds, questions, clock)
    return LiveSimulation(console, progress) if console.is_terminal else PlainSimulation(console, progress)


class PlainSimulation:
    """A line now and then, for logs and pipes."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console, self._progress = console, progress

    def take(self, event: Event) -> None:
        self._progress.take(event)
        if isinstance(event, CellRound) and not self._is_due(event.round):
            return
        line = line_of(event, self._progress)
        if line:
            say(self._console, line)

    def close(self) -> None:
        pass

    def _is_due(self, number: int) -> bool:
        """At the first round and whenever another tenth of the cell is done."""
        parts = [done * LINES_PER_CELL // self._progress.rounds for done in (number, number + 1)]
        return number == 0 or parts[0] != parts[1]


def line_of(event: Event, progress: Progress) -> str:
    """The line for this event; "" if it has none."""
    match event:
        case CellRound(arm=arm, seed=seed, round=number):
            view = progress.running[arm, seed]
            return (
                f"{arm} seed {seed}  round {number + 1}/{progress.rounds}  reward {view.smooth[-1]:.3f}  "
                f"{view.speed:.0f} rollouts/s  left {progress.time_left()}"
            )
        case CellFinished(arm=arm, seed=seed, cumulative_reward=reward):
            return f"{arm} seed {seed}  done  cumulative reward {reward:.1f}"
        case CellFailed(arm=arm, seed=seed, error=error):
            return f"{arm} seed {seed}  failed: {error}"
        case Notice(text=text):
            return text
        case Warned(text=text):
            return f"warning: {text}"
        case _:
            return ""


class LiveSimulation:
    """A table that is redrawn in place. Other lines scroll by above it."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console, self._progress = console, progress
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def take(self, event: Event) -> None:
        self._progress.take(event)
        if not isinstance(event, CellStarted | CellRound):
            style = "yellow" if isinstance(event, Warned | CellFailed) else ""
            line = line_of(event, self._progress)
            if line:
                say(self._console, line, style)

    def close(self) -> None:
        self._live.stop()

    def render(self) -> RenderableType:
        """The table as of now; rich asks for it."""
        table = Table(box=None, padding=(0, 2), header_style="dim")
        for column in ("arm", "seed", "round", "", "reward", "", "rollouts/s"):
            table.add_column(column, no_wrap=True)
        for (arm, seed), view in list(self._progress.running.items()):
            table.add_row(*self._row(arm, seed, view))
        line = f"  elapsed {self._progress.elapsed()}   left {self._progress.time_left()}"
        return Group(table, Text(line, style="dim"))

    def _row(self, arm: str, seed: int, view: CellView) -> tuple[str | Text, ...]:
        done, rounds = len(view.rewards), self._progress.rounds
        if not done:
            return arm, str(seed), Text("starting", style="dim")
        bar = Text("━" * (done * BAR_WIDTH // rounds), style="green")
        bar.append("━" * (BAR_WIDTH - len(bar)), style="dim")
        smooth = view.smooth
        spark = sparkline(smooth, SPARK_WIDTH)
        return arm, str(seed), f"{done}/{rounds}", bar, f"{smooth[-1]:.3f}", Text(spark), f"{view.speed:.0f}"
