"""Everything that can happen in a run, as small frozen values, and `Telemetry`, which hands each of
them to its sinks.

Events are plain data: no clock, no text formatting, no I/O. Sinks turn them into a terminal view or
JSON lines; code that emits an event does not know the sinks. A simulation has events of its own
(`simulated.py`).

Observers are sinks that listen to a run from its first second, such as a page, samples of rollouts
and trackers. A command has a table of them, and `observe` makes those that its configuration asks
for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Protocol, Self

from swarm_node.common.errors import UserError, printable, reason_of
from swarm_node.common.redaction import hidden
from swarm_node.rollouts.groups import RoundReport, Selection
from swarm_node.settings import Section


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened."""

    # Whether it goes to events.jsonl; else only sinks of this process get it
    written: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Begun(Event):
    """The command has begun and has loaded nothing heavy yet. Sinks start no thread before this
    event.
    """

    written: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A node or a simulation begins, or continues after a resume."""

    title: str  # e.g. "node 12D3KooW..."
    folder: str  # where its files are kept
    # What a reader wants to know first: model, device, ...
    facts: Mapping[str, str] = field(default_factory=dict)
    # Done before: rounds of this number and above that stand before this event are done again
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class RoundDone(Event):
    """One round of this node."""

    report: RoundReport  # all that is known of the round
    peers: int | None = None  # others it is connected to; None where nobody counts
    # External groups that have come, and not been collected; None where nobody counts
    waiting: int | None = None
    alone: str = ""  # why it trained on no external group; empty where it did


@dataclass(frozen=True, slots=True)
class Trained(Event):
    """The node has trained on a round; its `RoundDone` follows."""

    written: ClassVar[bool] = False

    selection: Selection  # the groups, with text of strangers


@dataclass(frozen=True, slots=True)
class Listening(Event):
    """Where others reach the node has changed."""

    addresses: tuple[str, ...]  # full multiaddrs, best first


@dataclass(frozen=True, slots=True)
class Resting(Event):
    """The node rests, or continues: it is a guest on its machine."""

    reason: str  # why it rests; empty when it continues


@dataclass(frozen=True, slots=True)
class CheckpointSaved(Event):
    """A checkpoint is on disk."""

    round: int  # rounds done when it was written
    path: str  # its folder


@dataclass(frozen=True, slots=True)
class Corrected:
    """A held-out question that was answered wrongly at first, and is answered correctly now."""

    task: str  # DATASET/CONFIG
    question: str  # the last line of its prompt, or the beginning of that
    before: str  # the first answer
    now: str


@dataclass(frozen=True, slots=True)
class Validated(Event):
    """Held-out questions were asked."""

    round: int  # rounds done
    reward: float  # mean over the questions
    questions: int  # that were completed and scored
    best: bool  # whether it is the highest reward so far, of these tasks
    by_task: Mapping[str, float] = field(default_factory=dict)  # the same by task
    # By task, when it was asked for the first time
    before: Mapping[str, float] = field(default_factory=dict)
    corrected: tuple[Corrected, ...] = ()  # one question of each task that has one
    # By task of which no question could be asked or scored: why
    unasked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chosen(Event):
    """Which of its tasks the node practises, with its recent share of right answers."""

    round: int  # rounds done
    practised: Mapping[str, float] = field(default_factory=dict)  # by task
    # The same by task that is left for a while: learned (from 0.9 on), or too hard
    dropped: Mapping[str, float] = field(default_factory=dict)
    unasked: int = 0  # tasks that were not tried yet


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something worth a line that needs no action."""

    text: str  # one line


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something a user should look at; the run continues."""

    text: str  # one line


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """A node or a simulation ends as it should."""

    text: str  # e.g. "stopped after 200 rounds"


class Sink(Protocol):
    """One receiver of events. Called in the order of emission, always from the same thread."""

    def take(self, event: Event) -> None:
        """Show or keep this event. A sink that raises OSError is dropped; the others continue."""
        ...

    def close(self) -> None:
        """Called last: no event comes after it. Most have nothing to close."""
        return


class Telemetry:
    """Hands every event to every sink. A sink whose output is gone (a closed pipe) is dropped, and
    training continues.
    """

    def __init__(
        self, sinks: Sequence[Sink] = (), show: Callable[[str], None] = lambda text: None
    ) -> None:
        """
        Args:
            show: prints a line on the user's terminal at once, in any thread. No sink gets the
                line.
        """
        self._sinks, self.show = list(sinks), show

    def add(self, sink: Sink) -> None:
        """From now on `sink` takes every event, after the sinks that are here already."""
        self._sinks.append(sink)

    def emit(self, event: Event) -> None:
        """Hand the event to every sink, in their order; a sink may emit another event while it
        takes one. The event's text, which may be that of a library's error, is stripped of secrets.
        """
        texts = [key for key in ("text", "error") if hasattr(event, key)]
        event = replace(event, **{key: hidden(getattr(event, key)) for key in texts})
        for sink in list(self._sinks):
            try:
                sink.take(event)
            except OSError:
                self._sinks = [each for each in self._sinks if each is not sink]

    def close(self) -> None:
        while self._sinks:
            try:
                self._sinks.pop().close()
            except OSError:
                continue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


Factory = Callable[[Path, Section, Telemetry], Sink | None]
"""Makes an observer of the run in this folder, or None. A factory returns at once: it may start a
process, but the observer starts threads only at the event `Begun` and loads what is heavy at
`RunStarted`. It takes all events in the thread that emits them, and may emit its own meanwhile.
`Telemetry.show` may be called at any time and in any thread.
"""


def observe(
    telemetry: Telemetry, folder: Path, config: Section, factories: Mapping[str, Factory]
) -> int:
    """Add every observer that this configuration asks for.

    Args:
        folder: that of the run: the home of a node, or the report folder of a simulation.
        config: that of the command, such as NodeConfig, BootstrapConfig or SimulationConfig.
        factories: the command's, by the name that a line about a failure gives.

    Returns:
        How many observers it added.

    Raises:
        UserError: an observer cannot be loaded, cannot start, or finds a mistake in its options.
    """
    made = 0
    for name, factory in factories.items():
        try:
            observer = factory(folder, config, telemetry)
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"the observer {name} cannot start in the folder {printable(str(folder))}: "
                f"{type(error).__name__}: {error}; solve this problem, or choose another folder "
                "with --home, or with --out for a simulation"
            ) from error
        if observer is not None:
            telemetry.add(Guarded(f"observer {name}", observer, telemetry.show))
            made += 1
    return made


class Guarded:
    """A sink that is ignored after it raised, so that the run continues. After an OSError it is
    called again, as a full disk may have room again. A UserError passes and ends the run, as only
    the user can correct it.
    """

    def __init__(self, name: str, sink: Sink, warn: Callable[[str], None]) -> None:
        self._name, self._sink, self._warn = name, sink, warn
        self._failed = self._warned = False

    def take(self, event: Event) -> None:
        if not self._failed:
            self._try(lambda: self._sink.take(event))

    def close(self) -> None:
        self._try(self._sink.close)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except UserError:
            raise
        except OSError as error:
            if not self._warned:
                self._warned = True
                self._warn(
                    f"{self._name} cannot write ({reason_of(error)}); make room there: "
                    "the run continues without some figures"
                )
        except Exception as error:  # noqa: BLE001  whatever somebody's observer may raise
            self._failed = True
            self._warn(f"{self._name} failed and is turned off: {type(error).__name__}: {error}")
