"""A running simulation on a terminal: a line now and then with arm, seed, round, reward, speed and
the time left.
"""

from collections import defaultdict
from collections.abc import Callable

from rich.console import Console

from swarm_node.rollouts.groups import mean
from swarm_node.telemetry.events import Event, Notice, Sink, Warned
from swarm_node.telemetry.simulated import CellFailed, CellFinished, CellRound, CellStarted
from swarm_node.telemetry.terminal import say

WINDOW = 10  # rounds of the moving average and of the speed
LINES_PER_CELL = 10


class SimulationTerminal(Sink):
    """Implements events.Sink. `cells` counts those still to run, without those that an earlier run
    finished.
    """

    def __init__(
        self, console: Console, cells: int, rounds: int, questions: int, clock: Callable[[], float]
    ) -> None:
        self._console, self._cells, self._rounds = console, cells, rounds
        self._questions, self._clock, self._started = questions, clock, clock()
        # Running cells, by arm and seed
        self._rounds_of: dict[tuple[str, int], list[CellRound]] = defaultdict(list)
        self._done = 0  # rounds, of all cells

    def take(self, event: Event) -> None:
        """Prints a line about the event where it calls for one."""
        match event:
            case CellStarted(arm, seed):
                # Those of a first try, whose host was lost, are done once more
                self._done -= len(self._rounds_of[arm, seed])
                self._rounds_of[arm, seed] = []
            case CellRound():
                self._round(event)
            case CellFinished(arm, seed, reward):
                say(self._console, f"{arm} seed {seed}  done  cumulative reward {reward:.1f}")
            case CellFailed(arm, seed, error):
                # The rounds that it lacks will not come
                self._done += self._rounds - len(self._rounds_of[arm, seed])
                say(self._console, f"{arm} seed {seed}  failed: {error}", "yellow")
            case Notice(text=text):
                say(self._console, text)
            case Warned(text=text):
                say(self._console, f"warning: {text}", "yellow")

    def time_left(self) -> str:
        """The time left at the speed so far, start-up included, as text; "..." before the first
        round.
        """
        if not self._done:
            return "..."
        left = self._cells * self._rounds - self._done
        return duration((self._clock() - self._started) / self._done * left)

    def _round(self, done: CellRound) -> None:
        """Prints a line at the first round, whenever another tenth of the cell is done, and with
        every evaluation.
        """
        self._done += 1
        rounds = self._rounds_of[done.arm, done.seed]
        rounds.append(done)
        before = done.round * LINES_PER_CELL // self._rounds
        now = (done.round + 1) * LINES_PER_CELL // self._rounds
        if done.round and before == now and not done.accuracy:
            return
        recent = rounds[-WINDOW:]
        reward = mean([each.reward for each in recent]) / self._questions
        seconds = sum(each.seconds.get("round", 0.0) for each in recent)
        rollouts = sum(each.metrics["rollouts"] for each in recent)
        speed = rollouts / seconds if seconds else 0.0
        known = [mean(list(node.values())) for node in done.accuracy if node]
        held_out = f"held out {mean(known):.3f}  " if known else ""
        say(
            self._console,
            f"{done.arm} seed {done.seed}  round {done.round + 1}/{self._rounds}  reward "
            f"{reward:.3f}  {held_out}{speed:.0f} rollouts/s  left {self.time_left()}",
        )


def duration(seconds: float) -> str:
    """Seconds as text: 1:02, or 1:00:02 with hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
