"""When a node that is a guest rests, and what it has used of its month."""

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from swarm_node.node.guest import Guest, Traffic
from swarm_node.node.loop import NO_ROOM, Session
from swarm_node.node.stopping import StopRequest
from swarm_node.settings.limits import PAUSE_FILE, VALIDATE_FILE, LimitsConfig, spans_of
from swarm_node.telemetry.events import Resting, Telemetry


def at(hour: int, minute: int = 0, month: int = 11) -> datetime:
    return datetime(2026, month, 22, hour, minute)


def resting(
    config: LimitsConfig, home: Path, hour: int, minute: int = 0, battery: bool = False
) -> str:
    return Guest(config, home, lambda: at(hour, minute), lambda: battery).resting()


@pytest.mark.parametrize(
    ("hours", "works", "rests"),
    [
        ("22-7", [22, 23, 0, 6], [7, 12, 21]),
        ("9-12,14-18", [9, 11, 14, 17], [8, 12, 13, 18]),
        ("0-24", [0, 12, 23], []),
        ("", [0, 12, 23], []),
    ],
)
def test_it_works_in_its_hours_and_rests_between_them(hours, works, rests, tmp_path):
    config = LimitsConfig(hours=hours)
    assert [hour for hour in works if resting(config, tmp_path, hour)] == []
    assert [hour for hour in rests if not resting(config, tmp_path, hour)] == []


def test_hours_have_minutes():
    assert spans_of("12:30-14, 22-7") == [(750, 840), (1320, 420)]


@pytest.mark.parametrize("hours", ["22", "25-7", "a-b", "7-7:60", "-"])
def test_other_texts_are_no_hours(hours):
    with pytest.raises(ValidationError):
        LimitsConfig(hours=hours)


def test_it_rests_while_it_is_told_to_and_on_battery_where_that_is_wanted(tmp_path):
    assert resting(LimitsConfig(), tmp_path, 12, battery=True) == ""
    assert resting(LimitsConfig(battery="pause"), tmp_path, 12, battery=True) == "on battery"
    (tmp_path / PAUSE_FILE).touch()
    assert "swarm-node resume" in resting(LimitsConfig(), tmp_path, 12)


def test_held_out_questions_are_asked_for_once(tmp_path):
    guest = Guest(LimitsConfig(), tmp_path)
    assert not guest.asked()
    (tmp_path / VALIDATE_FILE).touch()
    assert [guest.asked(), guest.asked()] == [True, False]


def test_traffic_is_counted_over_restarts_up_to_the_limit_of_the_month(tmp_path):
    first = Traffic(tmp_path, 3, lambda: at(1))
    assert not first.exceeded(2_000_000)
    first.save()
    second = Traffic(tmp_path, 3, lambda: at(2))
    assert not second.exceeded(500_000) and second.exceeded(1_000_000) and second.megabytes == 3.0
    second.save()
    assert not Traffic(tmp_path, 3, lambda: at(1, month=12)).exceeded(0)
    assert not Traffic(tmp_path, 0, lambda: at(3)).exceeded(10**12)


def session(reasons: list[str], rested: list[bool], events: list, aside=None) -> Session:
    """A session of one round. `reasons`: why to rest, look by look."""
    looks = iter(reasons)
    network = SimpleNamespace(
        addresses=(),
        traffic=0,
        connected=0,
        waiting=0,
        why_alone=lambda: "",
        lines=list,
        rest=rested.append,
    )
    report = SimpleNamespace(external_informative=0, external_considered=0)
    runner = SimpleNamespace(run_round=lambda now: report, waiting=list)
    never = SimpleNamespace(due=lambda done, asked=False: False, save=lambda done, waiting: "")
    guest = SimpleNamespace(resting=lambda: next(looks), asked=bool)
    traffic = SimpleNamespace(exceeded=lambda total: True, megabytes=3.0)
    progress = SimpleNamespace(note=lambda name, value: None)
    sink = SimpleNamespace(take=events.append, close=lambda: None)
    made = Session(
        runner,
        never,
        never,
        network,
        StopRequest(9.0),
        Telemetry([sink]),
        guest,
        traffic,
        progress,
        0,
    )  # type: ignore[arg-type]
    made.pause, made.aside = lambda seconds: None, aside
    return made


def test_a_rest_ends_without_traffic_where_that_of_the_month_is_used_up() -> None:
    """After the rest the node trains again, but still does not share."""
    rested: list[bool] = []
    session(["on battery", "on battery", "", ""], rested, []).run(1)
    # The limit is reached; the rest begins; it ends, and the limit stays
    assert rested == [True, True, True]


def test_a_node_that_gave_its_memory_back_goes_on_when_the_card_has_room_again() -> None:
    calls: list[str] = []
    room = iter([False, False, True])

    def come_back() -> bool:
        calls.append("come back")
        return next(room)

    aside = SimpleNamespace(leave=lambda: calls.append("leave"), come_back=come_back)
    events: list = []
    session(["a game", "a game", "", "", "", ""], [], events, aside).run(1)
    # Nothing is moved back while somebody plays
    assert calls == ["leave", "come back", "come back", "come back"]
    reasons = [event.reason for event in events if isinstance(event, Resting)]
    assert reasons == ["a game", NO_ROOM, ""]


def test_a_count_that_cannot_be_read_begins_anew(tmp_path):
    (tmp_path / "traffic.json").write_text("[" * 1000)
    assert not Traffic(tmp_path, 3, lambda: at(1)).exceeded(0)
