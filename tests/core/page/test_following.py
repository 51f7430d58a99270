"""What a page reads of a run: lines as they grow, figures in bounded memory."""

import asyncio
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest

from swarm_node.page import node as tail_module
from swarm_node.page.app import routes
from swarm_node.page.history import History
from swarm_node.page.node import KEPT, News, NodeWatch, SamplesWatch, Tail
from swarm_node.page.page import Page
from tests.core.page.conftest import read_all
from tests.runs import home_with, line, round_done, sampled

DATA = Path(__file__).parents[2] / "data"


def test_a_line_counts_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = Tail(path, tmp_path / "older.jsonl")
    assert tail.read() == ([], False)
    path.write_bytes(b'{"a": 1}\n{"a"')
    assert tail.read() == ([{"a": 1}], False)
    with path.open("ab") as file:
        file.write(b': 2}\nbroken {\n[1]\n"text"\n{"a": 3}\n')
    assert tail.read() == ([{"a": 2}, {"a": 3}], False)


def test_a_browser_is_told_which_tasks_the_node_has_chosen_and_that_they_changed(
    tmp_path: Path,
) -> None:
    chosen = {"practised": {"gcd/easy": 0.25}, "dropped": {"lcm/easy": 1.0}, "unasked": 3}
    path = tmp_path / "events.jsonl"
    path.write_text(line({"event": "Chosen", "time": 1.0, "round": 1, **chosen}))
    watched = NodeWatch(tmp_path)
    read_all(watched)
    state = watched.state()
    assert state["chosen"] == chosen
    later = chosen | {"unasked": 0}
    with path.open("a") as file:
        file.write(line({"event": "Chosen", "time": 2.0, "round": 2, **later}))
    read_all(watched)
    news = watched.news.after(state["serial"])
    assert news is not None and [piece for _, piece in news] == [{"chosen": later}]


def test_a_file_that_is_replaced_or_shortened_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    tail = Tail(path, tmp_path / "older.jsonl")
    tail.read()
    path.write_text('{"a": 3}\n')
    assert tail.read() == ([{"a": 3}], False)
    (tmp_path / "other").write_text('{"a": 4}\n{"a": 5}\n')
    (tmp_path / "other").replace(path)
    assert tail.read() == ([{"a": 4}, {"a": 5}], False) and tail.restarts == 2


def test_a_file_that_is_put_aside_when_it_is_large_is_followed_into_the_next(
    tmp_path: Path,
) -> None:
    path, older = tmp_path / "events.jsonl", tmp_path / "events.1.jsonl"
    older.write_text(line(round_done(0)))
    path.write_text(line(round_done(1)))
    watched = NodeWatch(tmp_path)
    read_all(watched)
    with path.open("a") as file:
        file.write(line(round_done(2)))
    path.replace(older)
    path.write_text(line(round_done(3)))
    read_all(watched)
    read_all(watched)
    assert watched.state()["whole"]["rounds"] == [0, 1, 2, 3]
    # Seconds
    assert watched.state()["whole"]["series"]["hours"] == [
        0.0,
        0.000277778,
        0.000555556,
        0.000833333,
    ]


def test_a_line_without_end_takes_bounded_memory_and_hides_only_itself(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(tail_module, "LONGEST", 1000)
    monkeypatch.setattr(tail_module, "PORTION", 400)
    path = tmp_path / "events.jsonl"
    path.write_text('{"a": 1}\n{"b": "' + "x" * 5000 + '"}\n{"a": 2}\n')
    tail, found, more = Tail(path, tmp_path / "older.jsonl"), [], True
    while more:
        records, more = tail.read()
        found += records
        assert len(tail._rest) <= 1400
    assert found == [{"a": 1}, {"a": 2}]


def test_a_history_of_100_000_rounds_has_bounded_points_that_are_means() -> None:
    history = History(most=100)
    for number in range(100_000):
        history.add(number, {"reward": float(number)})
    columns = history.columns()
    assert columns["width"] == 1024 and len(columns["rounds"]) <= 100
    assert columns["series"]["reward"][0] == pytest.approx(511.5)


@pytest.mark.parametrize(
    ("history", "added", "rounds", "series"),
    [
        (
            History(4),
            [(0, {"a": 1.0}), (1, {"b": 2.0})],
            [0, 1],
            {"a": [1.0, None], "b": [None, 2.0]},
        ),
        (
            History(100),
            [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0), (1, 4.0)],
            [0, 1],
            {"a": [0.0, 4.0]},
        ),
        (
            History(3, widens=False),
            [(n, float(n)) for n in range(5)],
            [2, 3, 4],
            {"a": [2.0, 3.0, 4.0]},
        ),
    ],
    ids=[
        "what comes later is empty before",
        "a node that goes on overwrites",
        "the last rounds as they were",
    ],
)
def test_a_history_has_a_column_for_each_figure(
    history: History, added: Any, rounds: Any, series: Any
) -> None:
    for number, value in added:
        history.add(number, value if isinstance(value, dict) else {"a": value})
    assert history.columns() == {"width": 1, "rounds": rounds, "series": series}


def test_a_viewer_that_is_behind_gets_what_it_lacks_or_begins_anew() -> None:
    news = News()
    for number in range(KEPT + 10):
        news.add({"n": number})
    assert news.after(news.serial) == []
    assert [serial for serial, _ in news.after(news.serial - 2) or []] == [
        news.serial - 1,
        news.serial,
    ]
    assert news.after(3) is None
    behind = news.serial
    news.anew()
    assert news.after(behind) is None and news.after(news.serial) == []
    assert news.after(news.serial + 5) is None  # a serial of a page that ran before this one


def test_a_node_is_read_from_its_home() -> None:
    watched = NodeWatch(DATA / "home")
    read_all(watched)
    state = watched.state()
    assert state["whole"]["rounds"] == list(range(45))
    series = {"reward", "task:gcd/easy", "phase:score", "phase:train", "tokens_per_second"}
    assert series <= state["whole"]["series"].keys()
    assert state["tasks"] == ["count_bits/easy", "gcd/easy"]
    assert watched.totals["rounds"] == 45
    assert state["validations"]["rounds"]


def test_rounds_that_come_are_news(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(line(round_done(0)))
    watched = NodeWatch(tmp_path)
    read_all(watched)
    serial = watched.state()["serial"]
    with path.open("a") as file:
        file.write(line(round_done(1, external_by_peer={"eve": {"scored": 2, "informative": 1}})))
        file.write(line({"event": "Warned", "time": 1.0, "text": "look"}))
    read_all(watched)
    (_, first), (_, second) = watched.news.after(serial) or []
    assert first["round"][0] == 1 and first["authors"] == {"eve": {"scored": 2, "informative": 1}}
    assert second["line"] == {"time": 1.0, "level": "warning", "text": "look"}


def test_samples_are_followed_over_the_turn_of_the_ring(tmp_path: Path) -> None:
    older, newer = tmp_path / "rollouts.old.jsonl", tmp_path / "rollouts.jsonl"
    older.write_text(line(sampled("gcd/easy", 0)))
    newer.write_text(line(sampled("gcd/easy", 1)))
    samples = SamplesWatch(tmp_path)
    samples.read()
    newer.replace(older)
    newer.write_text(line(sampled("gcd/easy", 2)))
    samples.read()
    assert [each["round"] for each in samples.last()] == [2, 1, 0] and samples.number == 3


def test_there_are_no_metrics_until_all_has_been_read(tmp_path: Path) -> None:
    """Sums over a part of the events would look like a leap once the rest is read."""
    page = Page(home_with(tmp_path, 3), lambda _: {}, monotonic)

    async def asked() -> int:
        transport = httpx.ASGITransport(routes(page, None, tmp_path))
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
            return (await client.get("/metrics")).status_code

    assert page.state()["loading"] and asyncio.run(asked()) == 503
    page.loading = False
    assert asyncio.run(asked()) == 200
