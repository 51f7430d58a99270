"""What a stranger may have written into a folder, a backup and requests to a page. Part of
`lab.fuzzing.folders`.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from swarm_node.rollouts.groups import METRICS, PHASES

MARK = "c4n4ry"  # in every payload, and nowhere else
TOKEN = "t" * 32
Where = tuple[str | int, ...]  # path of a field: keys and places in lists


def payloads(place: Path) -> list[str]:
    """60 texts. If run, each would write a file with the mark in its name, or load or open
    something of that name.
    """
    return [text.replace("/PLACE", str(place)) for text in _data()["payloads"]]


def documents() -> dict[str, Any]:
    """The documents of an honest home and report, by file name; a list stands for JSON lines."""
    found: dict[str, Any] = _data()["documents"]
    report = found["events.jsonl"][1]["report"]
    report |= dict.fromkeys(METRICS, 1) | {"seconds": dict.fromkeys(PHASES, 0.5)}
    report["step"] |= dict.fromkeys(METRICS, 1)
    return found


def _data() -> dict[str, Any]:
    return dict(json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")))


def places(value: Any, path: Where = ()) -> Iterator[tuple[Where, bool]]:
    """Every field and every key, at any depth: its path, and whether it is the key."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inner:
        yield (*path, key), False
        if isinstance(value, dict):
            yield (*path, key), True
        yield from places(each, (*path, key))


def replaced(value: Any, path: Where, new: str, key: bool) -> Any:
    """A copy with `new` in place of this field, or of its key if `key`."""
    first, *rest = path

    def inner(each: Any) -> Any:
        return replaced(each, tuple(rest), new, key) if rest else new

    if isinstance(value, list):
        return [inner(each) if index == first else each for index, each in enumerate(value)]
    if key and not rest:
        return {new if name == first else name: each for name, each in value.items()}
    return {name: inner(each) if name == first else each for name, each in value.items()}


def write(folder: Path, name: str, content: Any) -> None:
    """Writes a document as a node would, with whatever content."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = content if isinstance(content, list) else [content]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def backups(folder: Path, payload: str) -> Iterator[Path]:
    """Backups, each with the payload in another field: names, sizes, hashes, contents."""
    name, content = "manifest.json", b"{}"
    entry = [len(content), hashlib.sha256(content).hexdigest()]
    fields: list[tuple[dict[str, Any], bytes]] = [
        ({payload: entry}, content),
        ({f"checkpoints/1/{payload}": entry}, content),
        ({name: payload}, content),
        ({name: [payload, entry[1]]}, content),
        ({name: [entry[0], payload]}, content),
        ({name: entry}, payload.encode("utf-8", "replace")),
    ]
    for number, (listed, held) in enumerate(fields):
        file = folder / f"{number}.backup"
        file.write_bytes(json.dumps(listed).encode() + b"\n" + held)
        yield file


def requests(payload: str) -> Iterator[dict[str, Any]]:
    """Requests to a page, with the payload in each of their places."""
    own = {"authorization": f"Bearer {TOKEN}", "host": "127.0.0.1", "origin": "http://127.0.0.1"}
    posted = own | {"content-type": "application/json"}
    safe = payload.encode("ascii", "replace").decode().translate({n: " " for n in range(32)})
    for route in ("/api/state", "/api/samples", "/metrics"):
        yield {
            "method": "GET",
            "url": route,
            "params": {"serial": payload, "token": payload, payload: "1"},
            "headers": own,
        }
    for name in (
        "host",
        "origin",
        "authorization",
        "cookie",
        "referer",
        "user-agent",
        "x-forwarded-for",
        "range",
    ):
        yield {"method": "GET", "url": "/api/state", "headers": own | {name: safe}}
    yield {"method": "GET", "url": f"/static/{httpx.QueryParams({'x': payload})}", "headers": own}
    for field_, value in (("token", payload), (payload, TOKEN)):
        yield {
            "method": "POST",
            "url": "/api/enter",
            "headers": posted,
            "content": json.dumps({field_: value}),
        }
