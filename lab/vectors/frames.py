"""Requests and replies of the stream protocols. Cases stand in frames.toml."""

import json
import tomllib
from pathlib import Path
from typing import Any

from lab.vectors.forms import Group
from lab.vectors.messages import hellos

CASES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)


def frames() -> list[Group]:
    return [*(_group(kind, cases) for kind, cases in CASES.items()), *hellos()]


def _group(kind: str, cases: dict[str, Any]) -> Group:
    group = Group(kind, common={"count": cases["count"]} if "count" in cases else {})
    for comment, data, output, *flags in cases["valid"]:
        group.valid(comment, _bytes(data), json.loads(output) if output else None, *flags)
    for reason in ("malformed", "too_big", "malformed_or_too_big"):
        for comment, data, *flags in cases.get(reason, ()):
            group.invalid(comment, _bytes(data), reason.replace("_", " ").split(" or "), *flags)
    whole, complete = _bytes(cases["whole"]), {_bytes(case[1]) for case in cases["valid"]}
    for size in range(1, len(whole)):
        if whole[:size] not in complete:
            group.invalid(f"cut off after {size} bytes", whole[:size], "malformed", "CutOff")
    return group


def _bytes(parts: Any) -> bytes:
    if isinstance(parts, str):
        return bytes.fromhex(parts)
    pairs = [(part, 1) if isinstance(part, str) else part for part in parts]
    return b"".join(bytes.fromhex(unit) * count for unit, count in pairs)
