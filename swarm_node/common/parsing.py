"""JSON and TOML that others may have written: files of a home, a backup, a report, a card, a page.

Python's parsers accept more than a reader expects. A thousand brackets raise RecursionError, which
is not a ValueError; `NaN` and `1e999` are numbers that no integer takes. Here such a document is
refused with a ValueError, as every broken one is. So is one that is too large or nested too deep
for the code that walks through it, and a file with `"\\ud800"`, which cannot be written or printed.

Every parser of JSON and TOML in this package is called from here, except those that read what a
process of ours wrote (`tests/house/test_parsing.py` lists them).
"""

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from swarm_node.common.files import read_plain

DEPTH = 64  # lists and objects within each other; an honest file has at most ten
MEGABYTE = 1024 * 1024  # bytes
# Keys with more dots than DEPTH. tomllib's time grows with the square of their number: a key of
# 500,000 parts in a file of a megabyte would take hours
_DOTTED = re.compile(
    r"(?<![\w-])(?:(?:[A-Za-z0-9_-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"
    f"{{{DEPTH}}}"
)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # of a pair that spells one character

T = TypeVar("T")


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON document. Raises ValueError for everything else."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    check_depth(value)
    return value


def parse_typed(text: bytes | str, kind: type[T]) -> T:
    """The value of a JSON document of this type of msgspec. Raises ValueError for everything
    else.
    """
    import msgspec  # here: what reads only TOML starts sooner without it

    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML document. Raises ValueError for everything else."""
    if _DOTTED.search(text):
        raise ValueError("too many dots in a key")
    try:
        tables = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("too many brackets") from error
    check_depth(tables, finite=False)
    return tables


def read_json(path: Path, most: int) -> Any:
    """The value of a JSON file of at most `most` bytes. Raises OSError where the file cannot be
    read or is reached through a link; ValueError for everything else.
    """
    content = read_whole(path, most)
    value = parse_json(content)
    if _HALF.search(content):
        json.dumps(value, ensure_ascii=False).encode()  # raises where it is not a whole pair
    return value


def read_whole(path: Path, most: int) -> bytes:
    """The content of a file of a home. Raises ValueError where it has more than `most` bytes;
    OSError where it cannot be read, or is reached through a link.
    """
    content = read_plain(path, most + 1, follow=False)
    if len(content) > most:
        raise ValueError(f"larger than {most:,} bytes")
    return content


def check_depth(value: Any, finite: bool = True) -> None:
    """ValueError where lists and objects lie deeper within each other than DEPTH; with `finite`
    also for a number that is not finite.
    """
    level = [value]
    for _ in range(DEPTH + 1):
        level = _below(level, finite)
        if not level:
            return
    raise ValueError("nested too deep")


def _below(level: list[Any], finite: bool) -> list[Any]:
    """The values within these lists and objects that are lists or objects themselves."""
    found: list[Any] = []
    for outer in level:
        inner = outer.values() if isinstance(outer, dict) else outer
        for value in inner if isinstance(outer, dict | list) else ():
            if isinstance(value, dict | list):
                found.append(value)
            elif finite and isinstance(value, float) and not math.isfinite(value):
                raise ValueError("a number that is not finite")
    return found


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
