"""The loop of a node: it runs one round after another until it is told to stop, saves checkpoints
and reports.

The node rests while its user wants the machine, leaves the swarm while the traffic of the month is
used up, and saves before it ends. `build.py` makes all parts that the loop drives.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import sleep

from protocol.messages import Round
from swarm_node.common.errors import Diverged, TemporaryError, printable
from swarm_node.network.client import RemoteNetwork
from swarm_node.node.checkpoints import CheckpointWriter
from swarm_node.node.evaluation import Validation
from swarm_node.node.guest import Guest, Traffic
from swarm_node.node.stopping import Interrupted, StopRequest
from swarm_node.policy.aside import Aside
from swarm_node.rollouts.interfaces import Runner
from swarm_node.telemetry.events import (
    Listening,
    Notice,
    Resting,
    RoundDone,
    RunFinished,
    Telemetry,
    Warned,
)
from swarm_node.telemetry.recent import RecentRounds

LINE_CHARS = 400  # of a line from the network that are shown
REST_SECONDS = 0.5  # between two checks whether to go on
NO_ROOM = "the graphics card has no room for the model yet"  # why a node rests on


@dataclass
class Session:
    """A running node: it runs rounds, reports on them and saves checkpoints."""

    runner: Runner
    keeper: CheckpointWriter
    validation: Validation
    network: RemoteNetwork
    stop: StopRequest
    telemetry: Telemetry
    guest: Guest
    traffic: Traffic
    progress: RecentRounds
    done: int  # rounds, those of earlier runs included
    pause: Callable[[float], None] = sleep
    addresses: tuple[str, ...] = ()  # as last reported
    told: set[str] = field(default_factory=set)  # tasks that were said not to be validated
    capped: bool = False  # whether the traffic of this month is used up
    aside: Aside | None = None  # moves the model off the card while the node rests
    # Compares the weights on all devices, after each checkpoint but the last
    compare: Callable[[], None] = lambda: None

    def run(self, max_rounds: int) -> None:
        """Run rounds until told to stop, or until `max_rounds` are done in all; 0 sets no end."""
        start = self.done
        self._pass_on()
        if not start and self.validation.due(start):
            self._validate()
        rested = ""
        while not self.stop.wanted and (not max_rounds or self.done < max_rounds):
            if reason := self.guest.resting():
                rested = self._rest(reason)
                continue
            try:
                with self.stop.interruptible():
                    report = self.runner.run_round(Round(self.done))
                    # Before anybody is told of the round
                    self.done, self.stop.to_save = self.done + 1, True
                    self.stop.counted()
            except Interrupted:
                self._give_up(start)
                return
            except Diverged as error:
                if error.sound and self.done > start:
                    self._save_last([])
                raise
            alone = (
                ""
                if report.external_considered + report.external_informative
                else self.network.why_alone()
            )
            self.telemetry.emit(
                RoundDone(report, self.network.connected, self.network.waiting, alone)
            )
            self._pass_on()
            if self.validation.due(self.done, self.guest.asked()):
                self._validate()
            if self.keeper.due(self.done):
                self.keeper.save(self.done, self.runner.waiting())
                self._compare()
        if self.done > start:
            self._save_last(self.runner.waiting())
        self.telemetry.emit(
            RunFinished(self._summary(start) + (f", while it rested: {rested}" if rested else ""))
        )

    def _summary(self, start: int) -> str:
        return f"stopped after {self.done - start} rounds" + (
            f", {self.done} in all" if start else ""
        )

    def _validate(self) -> None:
        with suppress(Interrupted):
            with self.stop.interruptible():
                measured = self.validation.measure(self.done)
            self.telemetry.emit(measured)
            self._tell_unasked(measured.unasked)
            if measured.best:
                self.keeper.keep_best(measured)

    def _compare(self) -> None:
        """Compares the weights on all devices. A worker may hang, and a node that is told to stop
        does not wait for it.
        """
        with suppress(Interrupted), self.stop.interruptible():
            if not self.stop.wanted:
                self.compare()

    def _tell_unasked(self, unasked: Mapping[str, str]) -> None:
        """Says once of a task that none of its held-out questions could be asked or scored."""
        for task, why in unasked.items():
            if task not in self.told:
                self.told.add(task)
                self.telemetry.emit(
                    Warned(
                        f"no held-out question of {printable(task)} could be asked and scored "
                        f"({printable(why)}): this task is not validated"
                    )
                )

    def _give_up(self, start: int) -> None:
        """Ends the run in the middle of a round, with the weights as they were before it. The next
        run does that round again, generation included.
        """
        if self.done > start:
            self._save_last([])
        self.telemetry.emit(RunFinished(f"{self._summary(start)}, in the middle of the next"))

    def _count(self) -> None:
        """Leaves the swarm when this month's traffic is used up, and rejoins it when the next month
        begins.
        """
        exceeded = self.traffic.exceeded(self.network.traffic)
        self.progress.note("traffic_megabytes", self.traffic.megabytes)
        if exceeded != self.capped:
            self.capped = exceeded
            self.network.rest(exceeded)
            how = (
                "reached: training alone until the next month"
                if exceeded
                else "was renewed with the new month: sharing again"
            )
            self.telemetry.emit(Warned(f"limit of this month's traffic {how}"))

    def _save_last(self, waiting: list[str]) -> None:
        """Saves the last checkpoint. TemporaryError where that fails: no later one can make up for
        it.
        """
        self.telemetry.emit(Notice("saving ..."))
        if failed := self.keeper.save(self.done, waiting):
            failed = (
                f"the last checkpoint could not be written ({failed}): "
                "make room; the one before it is complete"
            )
            raise TemporaryError(failed)

    def _rest(self, reason: str) -> str:
        """Rests, without training or traffic, until the reason is gone or a stop is wanted. Returns
        the reason left.
        """
        self.telemetry.emit(Resting(reason))
        self.network.rest(True)
        # Else a signal would end it without a last line
        before, self.stop.to_save = self.stop.to_save, True
        if self.aside is not None:
            self.aside.leave()
        while reason and not self.stop.wanted:
            self.pause(REST_SECONDS)
            if (now := self.guest.resting() or self._come_back()) and now != reason:
                self.telemetry.emit(Resting(now))
            reason = now
        if not reason:
            self.stop.to_save = before
            self.network.rest(self.capped)
            self.telemetry.emit(Resting(""))
        return reason

    def _come_back(self) -> str:
        """Moves the model back to the card, if it was moved off it. Returns why the node has to
        rest on; "" where it may go on.
        """
        back = self.aside is None or self.aside.come_back()
        return "" if back else NO_ROOM

    def _pass_on(self) -> None:
        """Passes on what the network tells the user: new addresses, and lines. Counts the
        traffic.
        """
        if self.network.addresses != self.addresses:
            self.addresses = self.network.addresses
            self.telemetry.emit(Listening(self.addresses))
        self._count()
        for text, warning in self.network.lines():
            shown = printable(text, LINE_CHARS)
            self.telemetry.emit(Warned(shown) if warning else Notice(shown))
