import json
from pathlib import Path

import pytest

from swarm_node.telemetry.events import Notice, Warned
from swarm_node.telemetry.jsonlines import JsonLines, read_jsonlines


def texts(path):
    return [record["text"] for record in read_jsonlines(path)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def sink(path, warnings):
    sink = JsonLines(path, warnings.append, clock=lambda: 12.3456)
    yield sink
    sink.close()


def test_an_event_is_one_line_with_time_and_kind_and_is_there_at_once(sink, path):
    sink.take(Notice("two\nlines"))
    assert path.read_text().count("\n") == 1
    assert json.loads(path.read_text()) == {"time": 12.346, "event": "Notice", "text": "two\nlines"}


def test_lines_that_are_json_but_no_events_are_left_out(path):
    path.write_text('3\n"x"\n\n{"text": "a"}\n\xff\n')
    assert texts(path) == ["a"]


def test_numbers_that_json_has_no_word_for_become_null(sink, path, round_report):
    from swarm_node.telemetry.events import RoundDone

    sink.take(RoundDone(round_report(reward=float("nan"))))
    assert json.loads(path.read_text())["report"]["reward"] is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_warning_and_the_run_goes_on(warnings):
    sink = JsonLines(Path("/dev/full"), warnings.append)
    for _ in range(3):
        sink.take(Warned("x"))
    sink.close()
    assert (
        len(warnings) == 1 and "No space left on device" in warnings[0] and "\n" not in warnings[0]
    )


class FillingDisk:
    """A raw file that has room for some bytes, then none, then some again."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, view):
        if not self.room:
            raise OSError(28, "No space left on device")
        taken = min(self.room, len(view))
        self.room -= taken
        return self.file.write(view[:taken])

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_what_a_full_disk_leaves_of_a_line_spoils_no_later_line(sink, path, warnings):
    disk = sink._lines._file = FillingDisk(sink._lines._file, room=80)
    sink.take(Notice("first"))
    sink.take(Notice("lost"))
    disk.room = 1000
    sink.take(Notice("third"))
    assert (
        texts(path) == ["first", "third"]
        and len(warnings) == 1
        and path.read_bytes().count(b"\n") == 2
    )


def test_a_large_file_is_put_aside_and_the_one_before_goes(tmp_path, warnings):
    path = tmp_path / "events.jsonl"
    sink = JsonLines(path, warnings.append, clock=lambda: 0.0, most=200)
    for number in range(12):
        sink.take(Notice(f"event {number} with some text"))
    sink.close()
    aside = tmp_path / "events.1.jsonl"
    texts = [event["text"] for file in (aside, path) for event in read_jsonlines(file)]
    assert texts == [f"event {number} with some text" for number in range(12 - len(texts), 12)]
    assert path.stat().st_size < 300 and 200 <= aside.stat().st_size < 300
    assert sorted(tmp_path.iterdir()) == [aside, path]
    assert warnings == []
