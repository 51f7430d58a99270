"""Observers: which are made, what they may do while they take an event, and what their mistakes
cost.
"""

from pathlib import Path

import pytest

from swarm_node.common.errors import UserError
from swarm_node.settings import BootstrapConfig, NodeConfig, Section
from swarm_node.telemetry.events import (
    Begun,
    Event,
    Notice,
    RunFinished,
    Sink,
    Telemetry,
    Trained,
    observe,
)
from swarm_node.telemetry.jsonlines import JsonLines
from swarm_node.telemetry.samples import SampleWriter, samples


class Recorder:
    """Keeps events."""

    def __init__(self, taken: list[Event]) -> None:
        self.taken, self.closed = taken, False

    def take(self, event: Event) -> None:
        self.taken.append(event)

    def close(self) -> None:
        self.closed = True


def test_only_observers_whose_options_are_on_listen_and_the_factory_gets_the_whole_configuration(
    tmp_path: Path,
) -> None:
    taken: list[Event] = []
    on = Recorder(taken)

    def nodes_alone(folder: Path, config: Section, telemetry: Telemetry) -> Sink | None:
        assert folder == tmp_path
        return on if isinstance(config, NodeConfig) else None

    factories = {"nodes_alone": nodes_alone, "never": lambda folder, config, telemetry: None}
    with Telemetry() as telemetry:
        assert observe(telemetry, tmp_path, BootstrapConfig(), factories) == 0
        assert observe(telemetry, tmp_path, NodeConfig(), factories) == 1
        telemetry.emit(Begun())
    assert taken == [Begun()] and on.closed


def test_an_observer_that_raises_is_left_out_and_a_mistake_of_the_user_ends_the_run(
    tmp_path: Path,
) -> None:
    class Broken(Recorder):
        def take(self, event: Event) -> None:
            super().take(event)
            raise self.error

        def close(self) -> None:
            raise self.error

    shown: list[str] = []
    broken = Broken([])
    telemetry = Telemetry(show=shown.append)
    factories = {"broken": lambda folder, config, telemetry: broken}
    observe(telemetry, tmp_path, NodeConfig(), factories)
    broken.error = UserError("correct it")
    with pytest.raises(UserError, match="correct it"):
        telemetry.emit(Notice("a"))
    broken.error = ValueError("no")
    telemetry.emit(Notice("b"))
    telemetry.emit(Notice("c"))
    assert broken.taken == [Notice("a"), Notice("b")]
    assert shown == ["observer broken failed and is turned off: ValueError: no"]
    telemetry.close()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UserError("set it"), "^set it$"),
        (
            OSError("no"),
            "^the observer bad cannot start in the folder .+: OSError: no; solve this problem, or "
            "choose another folder with --home, or with --out for a simulation$",
        ),
    ],
)
def test_an_observer_that_cannot_begin_is_one_line_and_the_others_are_closed(
    tmp_path: Path, error: Exception, said: str
) -> None:
    def bad(folder: Path, config: Section, telemetry: Telemetry) -> Sink:
        raise error

    good = Recorder([])
    factories = {"good": lambda folder, config, telemetry: good, "bad": bad}
    with pytest.raises(UserError, match=said), Telemetry() as telemetry:
        observe(telemetry, tmp_path, NodeConfig(), factories)
    assert good.closed


def test_a_view_that_is_gone_may_be_told_twice(tmp_path: Path) -> None:
    class Speaking(Recorder):
        def take(self, event: Event) -> None:
            if isinstance(event, RunFinished):
                telemetry.emit(Notice("wait"))

    telemetry = Telemetry([Speaking([]), BrokenPipe([]), view := Recorder([])])
    telemetry.emit(RunFinished("done"))
    assert view.taken == [Notice("wait"), RunFinished("done")]


def test_events_for_sinks_of_the_same_process_are_in_no_file(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "events.jsonl", print, clock=lambda: 1.0)
    for event in (Begun(), Trained(None), Notice("a")):  # type: ignore[arg-type]
        lines.take(event)
    assert (
        tmp_path / "events.jsonl"
    ).read_text() == '{"time": 1.0, "event": "Notice", "text": "a"}\n'


def test_samples_are_kept_of_nodes_that_train_unless_turned_off(tmp_path: Path) -> None:
    off = NodeConfig(observers=())
    assert isinstance(samples(tmp_path, NodeConfig(), Telemetry()), SampleWriter)
    assert (
        samples(tmp_path, off, Telemetry()) is None
        and samples(tmp_path, BootstrapConfig(), Telemetry()) is None
    )


class BrokenPipe(Recorder):
    """A sink whose output is gone."""

    def take(self, event: Event) -> None:
        super().take(event)
        raise BrokenPipeError

    def close(self) -> None:
        super().close()
        raise BrokenPipeError


def test_a_sink_without_output_is_dropped_and_the_others_take_every_event_and_are_closed() -> None:
    broken, sound, events = BrokenPipe([]), Recorder([]), [Notice("a"), Notice("b")]
    with Telemetry([broken, sound]) as telemetry:
        for event in events:
            telemetry.emit(event)
    assert (broken.taken, sound.taken, sound.closed) == (events[:1], events, True)
    Telemetry([last := Recorder([]), BrokenPipe([])]).close()
    assert last.closed, "one that cannot be closed keeps no other open"
