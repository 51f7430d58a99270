"""Hostile JSON and TOML: a ValueError, soon, and never anything else."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from swarm_node.common.files import has_holes, is_plain, read_plain
from swarm_node.common.parsing import DEPTH, parse_json, parse_toml, parse_typed, read_json

HOSTILE_JSON = {
    "brackets": "[" * 100_000,
    "whole brackets": "[" * 900 + "]" * 900,
    "objects": '{"a":' * 100_000,
    "a level too deep": "[" * (DEPTH + 2) + "]" * (DEPTH + 2),
    "not a number": "NaN",
    "infinite": "-Infinity",
    "too large a float": '{"a": [1e999]}',
    "too many digits": "9" * 5000,
    "nothing": "",
    "zero bytes": "\0" * 1000,
}
HOSTILE_TOML = {
    "brackets": "a = " + "[" * 100_000,
    "tables": "a = " + "{a=" * 100_000,
    "whole brackets": "a = " + "[" * 300 + "]" * 300,
    "dots": "a." * 400_000 + "b = 1",
    "dots and spaces": "a . " * 100_000 + "b = 1",
    "quoted dots": '"a".' * 100_000 + "b = 1",
    "a header": "[" + "a." * 100_000 + "b]",
    "many digits": "a = " + "9" * 5000,
    "zero bytes": "\0",
}


@pytest.mark.parametrize("text", HOSTILE_JSON.values(), ids=HOSTILE_JSON)
def test_hostile_json_is_a_value_error(tmp_path: Path, text: str) -> None:
    for given in (text, text.encode()):
        with pytest.raises(ValueError):
            parse_json(given)
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(ValueError):
        read_json(file, 10**6)


@pytest.mark.parametrize("text", HOSTILE_TOML.values(), ids=HOSTILE_TOML)
def test_hostile_toml_is_a_value_error_and_takes_no_time(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError):
        parse_toml(text)
    assert time.process_time() - began < 5


def test_what_people_write_is_taken() -> None:
    deep: Any = []
    for _ in range(DEPTH):
        deep = [deep]
    assert parse_json(json.dumps(deep)) == deep
    assert parse_json(b'{"a": [1, 2.5, "x", null, true]}') == {"a": [1, 2.5, "x", None, True]}
    assert parse_toml('a.b.c = 1\npeers = ["/ip4/1.2.3.4/tcp/1"]\nd = inf') == {
        "a": {"b": {"c": 1}}, "peers": ["/ip4/1.2.3.4/tcp/1"], "d": float("inf"),
    }  # fmt: skip
    assert parse_toml("text = '" + "1.2.3.4 " * 500 + "'")["text"].startswith("1.2.3.4")


def test_nesting_in_a_typed_document_is_a_value_error() -> None:
    for kind in (Any, dict[str, Any], list[Any]):
        with pytest.raises(ValueError):
            parse_typed("[" * 100_000, kind)  # type: ignore[arg-type]  # Any is a type for msgspec


def test_a_file_is_read_up_to_a_size_and_not_through_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "file.json", tmp_path / "link.json"
    file.write_text("[1]")
    link.symlink_to(file)
    assert read_json(file, 3) == [1]
    with pytest.raises(ValueError, match="larger than 2 bytes"):
        read_json(file, 2)
    with pytest.raises(OSError, match="it is a link"):
        read_json(link, 100)
    assert is_plain(file) and not is_plain(link) and not is_plain(tmp_path / "none")


def test_a_file_of_terabytes_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    with file.open("wb") as content:
        content.truncate(1 << 42)
    with pytest.raises(ValueError, match="larger"):
        read_json(file, 1 << 20)
    assert len(read_plain(file, 10)) == 10
    with file.open("rb") as content:
        assert has_holes(content.fileno())
    file.write_bytes(os.urandom(100_000))
    with file.open("rb") as content:
        assert not has_holes(content.fileno()) and len(content.read()) == 100_000


def test_half_a_character_in_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(r'{"a": "\ud800"}')
    with pytest.raises(ValueError):
        read_json(file, 100)
    file.write_text(r'{"a": "\ud83d\ude00"}')
    assert read_json(file, 100) == {"a": "😀"}
