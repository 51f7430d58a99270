"""What all vectors share: the numbers of protocol/README.md, tests in groups, and how a file spells
them.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.benchmarks.command import ROOT

FOLDER = ROOT / "protocol" / "vectors"
PAGE = (ROOT / "protocol" / "README.md").read_text(encoding="utf-8")
VERSION = int(re.findall(r"^# Wire protocol, version (\d+)", PAGE)[0])
LIMITS = {
    name: int(value)
    for name, value in re.findall(r"^(?:\| `)?([A-Z_]+)(?:` \|)? +(\d+)\b", PAGE, re.M)
}
SWARM = "vectors"

_RUN = re.compile(rb"(.{1,100}?)\1{11,}", re.DOTALL)

Spelling = str | list[str | dict[str, Any]]


@dataclass(slots=True)
class Group:
    """Tests of one type, with what they have in common."""

    type: str
    base: bytes = b""  # most inputs repeat most of it
    apart: int = 0  # leading bytes that are not in the base: a signature
    common: Mapping[str, Any] = field(default_factory=dict)
    tests: list[dict[str, Any]] = field(default_factory=list)

    def valid(
        self, comment: str, data: bytes, output: Any = None, *flags: str, **fields: Any
    ) -> None:
        self.tests.append(
            {
                "comment": comment,
                "flags": flags,
                **fields,
                "input": self._spelt(data),
                "result": "valid",
            }
            | ({} if output is None or len(data) > 5000 else {"output": output})
        )

    def invalid(
        self, comment: str, data: bytes, reasons: str | Sequence[str], *flags: str, **fields: Any
    ) -> None:
        listed = [reasons] if isinstance(reasons, str) else reasons
        self.tests.append(
            {"comment": comment, "flags": flags, **fields, "input": self._spelt(data)}
            | {"result": "invalid", "reasons": listed}
        )

    def _spelt(self, data: bytes) -> Spelling:
        return spelt(data[self.apart :], self.base, data[: self.apart])


def spelt(data: bytes, base: bytes, front: bytes = b"") -> Spelling:
    """Hex of front and data, or parts: slices of the base, repetitions, and hex of the rest."""
    start = _alike(data, base)
    end = _alike(data[start:][::-1], base[start:][::-1])
    middle = data[start : len(data) - end]
    parts: list[str | dict[str, Any]] = [front.hex()]

    def add(part: str | dict[str, Any]) -> None:
        if isinstance(part, str) and isinstance(parts[-1], str):
            part = str(parts.pop()) + part
        parts.append(part)

    def repeat(begin: int, stop: int) -> None:
        if stop > begin:
            add({"base": [begin, stop]} if stop - begin > 12 else base[begin:stop].hex())

    repeat(0, start)
    place = 0
    for run in _RUN.finditer(middle):
        add(middle[place : run.start()].hex())
        add({"repeat": [run[1].hex(), len(run[0]) // len(run[1])]})
        place = run.end()
    add(middle[place:].hex())
    repeat(len(base) - end, len(base))
    parts = [part for part in parts if part]
    return parts if any(isinstance(part, dict) for part in parts) else "".join(map(str, parts))


def _alike(one: bytes, other: bytes) -> int:
    """The number of leading bytes that both have in common."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def read(spelling: Spelling, base: bytes = b"") -> bytes:
    """The inverse of `spelt`."""
    return b"".join(
        _part(part, base) for part in ([spelling] if isinstance(spelling, str) else spelling)
    )


def _part(part: str | dict[str, Any], base: bytes) -> bytes:
    if isinstance(part, str):
        return bytes.fromhex(part)
    if "base" in part:
        return base[slice(*part["base"])]
    unit, count = part["repeat"]
    return bytes.fromhex(unit) * int(count)


def written(groups: Iterable[Group], notes: Mapping[str, str]) -> bytes:
    """The content of a file. Tests are numbered throughout, and each has a line of its own."""
    heads, number = [], 0
    used: set[str] = set()
    for group in groups:
        lines = []
        for test in group.tests:
            number += 1
            used.update(test["flags"])
            lines.append(_json({"tcId": number, **test}))
        head = {"type": group.type, **group.common} | (
            {"base": group.base.hex()} if group.base else {}
        )
        heads.append(_with(head, "tests", lines))
    top = {"schema": "swarm-node-vectors-1", "protocol": VERSION, "numberOfTests": number}
    top |= {"notes": {flag: notes[flag] for flag in sorted(used)}}
    return f"{_with(top, 'testGroups', heads)}\n".encode()


def _with(value: Mapping[str, Any], name: str, lines: Iterable[str]) -> str:
    """JSON of an object with one more field, a list whose items have lines of their own."""
    return "".join([_json(value)[:-1], f',"{name}":[\n', ",\n".join(lines), "\n]}"])


def load(folder: Path = FOLDER) -> Iterable[tuple[str, dict[str, Any], dict[str, Any], bytes]]:
    """File, group, test and input of every vector."""
    for file in sorted(folder.glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8"))["testGroups"]:
            base = bytes.fromhex(group.get("base", ""))
            for test in group["tests"]:
                yield file.stem, group, test, read(test["input"], base)


def canonical(value: Any) -> bytes:
    """The canonical form; what it cannot hold, such as null, is written as JSON does."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
