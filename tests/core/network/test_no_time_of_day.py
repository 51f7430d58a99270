"""A clock an hour off changes nothing: no code of the network or the protocol looks at the time of day."""

import ast
from collections.abc import Iterator
from pathlib import Path

import protocol
import swarm_node.network

WALL = {"time", "time_ns", "localtime", "gmtime", "ctime", "strftime"}  # of module time


def readings(source: str) -> Iterator[str]:
    """Uses of the time of day; `time.monotonic` is none."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name == "datetime")
            case ast.ImportFrom(module="time", names=names):
                yield from (alias.name for alias in names if alias.name in WALL)
            case ast.ImportFrom(module="datetime"):
                yield "datetime"
            case ast.Attribute(value=ast.Name(id="time"), attr=attribute) if attribute in WALL:
                yield f"time.{attribute}"


def test_the_search_finds_what_it_looks_for() -> None:
    assert list(readings("import time\nx = time.time()\ny = time.monotonic()")) == ["time.time"]
    assert list(readings("from time import time, monotonic")) == ["time"]
    assert list(readings("import datetime\nfrom datetime import date")) == ["datetime", "datetime"]


def test_nothing_reads_the_time_of_day() -> None:
    folders = [Path(file).parent for file in (swarm_node.network.__file__, protocol.__file__) if file]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(files) > 40
    found = {file.name: uses for file in files if (uses := list(readings(file.read_text())))}
    assert found == {}
