"""A folder that somebody else made: nothing in it is run, and a wrong line costs only itself."""

import json
import os
import re
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from swarm_node.page.app import answer
from swarm_node.page.metrics import exposition
from swarm_node.page.node import NodeWatch, SamplesWatch
from swarm_node.page.page import Page
from swarm_node.page.start import token_of
from tests.core.page.conftest import read_all
from tests.runs import line, round_done, sampled

ODD: tuple[Any, ...] = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e308", "9" * 400, "-" + "9" * 400,
    "9007199254740993", "-1", "0.5", "null", "true", "false", '""', '"1"', '"x"', '"\\ud800"',
    '"\\u0000"', "[]", "[1]", "[null]", "[[1, 2]]", "{}", '{"a": 1}', '{"a": null}', '{"": []}',
    '{"a": 1e999}', "[" * 200 + "]" * 200,
)  # fmt: skip


def lines_with(record: dict[str, Any]) -> list[str]:
    """The record, with each odd value in place of each of its fields, at any depth."""
    found = []
    for path in paths_of(record):
        for odd in ODD:
            text = json.dumps(put(record, path, "@@"))
            found.append(text.replace('"@@"', odd) + "\n")
    return found


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [found for key, each in inner for found in ((*path, key), *paths_of(each, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(value[path[0]], path[1:], new)
    return copy


def shown(state: dict[str, Any]) -> None:
    """Reads the state as a browser gets it: JSON without NaN."""
    json.loads(answer(state).body)


NODE = (
    round_done(
        0,
        external_by_peer={"eve": {"scored": 2}},
        overlap={"wall": 1.0, "generating": 0.5, "training": 0.5, "waiting": 1},
    ),
    {
        "event": "Validated", "time": 1.0, "round": 1, "reward": 0.5, "questions": 4, "best": True,
        "by_task": {"a/b": 0.5}, "before": {"a/b": 0.25},
        "corrected": [{"task": "a/b", "question": "q", "before": "w", "now": "r"}],
    },
    {"event": "Chosen", "time": 1.0, "round": 1, "practised": {"a/b": 0.5}, "dropped": {"c/d": 1.0},
        "unasked": 3},
    {"event": "CheckpointSaved", "time": 1.0, "round": 1, "path": "x"},
    {"event": "RunStarted", "time": 1.0, "title": "node", "folder": "", "facts": {"model": "m"},
        "rounds": 0},
    {"event": "Warned", "time": 1.0, "text": "look"},
)  # fmt: skip


@pytest.mark.parametrize("event", NODE, ids=lambda event: event["event"])
def test_a_bad_line_of_a_node_costs_itself(tmp_path: Path, event: dict[str, Any]) -> None:
    bad = lines_with(event)
    assert len(bad) >= 3 * len(ODD)
    events = tmp_path / "events.jsonl"
    events.write_text(line(round_done(1)) + "".join(bad) + line(round_done(2**40)) + line(NODE[1]))
    page = Page(tmp_path, lambda _: {}, monotonic)
    watched = page.node
    read_all(watched)
    state = watched.state()
    shown(state)
    assert state["whole"]["rounds"][-1] * state["whole"]["width"] <= 2**40
    assert watched.last["round"] == 2**40
    assert state["validations"]["rounds"][-1] <= 2**40
    text = exposition(page, {}).decode()
    (shown_round,) = re.findall(r"^swarm_node_round (.+)$", text, re.MULTILINE)
    assert float(shown_round) == 2**40
    shown({"news": watched.news.after(state["serial"] - 10)})


def test_a_bad_sample_costs_itself(tmp_path: Path) -> None:
    good = sampled("gcd/easy")
    (tmp_path / "rollouts.jsonl").write_text("".join(lines_with(good)) + line(good))
    samples = SamplesWatch(tmp_path)
    samples.read()
    shown({"samples": samples.last()})
    assert samples.last()[0] == good
    for each in samples.last():
        assert each.keys() == good.keys()
        assert {key: type(value) for key, value in each.items()} == {
            key: type(value) for key, value in good.items()
        }


@pytest.mark.slow
def test_lines_of_megabytes_leave_memory_bounded(tmp_path: Path) -> None:
    """A line is read up to 8 MB; little of it is kept, and less is sent."""
    with (tmp_path / "events.jsonl").open("w") as file:
        for number in range(20):
            tasks = {f"{number}-{index}": 0.5 for index in range(20_000)}
            peers = {f"{number}-{index}": {"scored": 1} for index in range(20_000)}
            file.write(
                line(
                    round_done(
                        number,
                        reward_by_task=tasks,
                        external_by_peer=peers,
                        skipped=dict.fromkeys(tasks, 1),
                    )
                )
            )
            facts = {f"f{index}": "x" * 100 for index in range(5000)}
            file.write(
                line({"event": "RunStarted", "time": 1.0, "title": "y" * 10**6, "facts": facts})
            )
            file.write(line({"event": "Warned", "time": 1.0, "text": "x" * 10**6}))
    watched = NodeWatch(tmp_path)
    read_all(watched)
    assert len(answer(watched.state()).body) < 3_000_000
    assert all(
        len(json.dumps(piece)) < 400_000
        for _, piece in watched.news.after(watched.news.serial - 50) or []
    )


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a device", "link to a pipe"])
def test_what_is_no_plain_file_keeps_nobody_waiting(tmp_path: Path, kind: str) -> None:
    def put_at(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "link to a device":
            path.symlink_to("/dev/zero")
        else:
            os.mkfifo(path.with_suffix(".pipe"))
            path.symlink_to(path.with_suffix(".pipe"))

    for name in ("events.jsonl", "events.1.jsonl", "rollouts.jsonl", "page.token"):
        put_at(tmp_path / name)
    watched = NodeWatch(tmp_path)
    read_all(watched)
    assert watched.state()["whole"]["rounds"] == []
    SamplesWatch(tmp_path).read()
    assert len(token_of(tmp_path)) > 20
