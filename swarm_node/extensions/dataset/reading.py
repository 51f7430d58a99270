"""Rows out of a file: JSON Lines, CSV, Parquet, or a data set of the Hugging Face hub.

Runs in the process of `compile.py`, with the user's environment: the file is the user's, and some readers are heavy. It
may come from a stranger all the same, so what a reader holds at a time is bounded before it is parsed.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NoReturn

from swarm_node.common.errors import UserError, printable
from swarm_node.common.private import open_to_read
from swarm_node.extensions.dataset import bounds

HUB = "hf:"


def rows(file: str, wanted: Collection[str]) -> Iterator[bounds.Row | str]:
    """Each row by its columns, or the reason why it is left out. Columns that are not `wanted` may be None. UserError
    where the file cannot be read, or is larger than the bounds above."""
    found = _hub(file.removeprefix(HUB)) if file.startswith(HUB) else _file(file, wanted)
    for count, row in enumerate(found, 1):
        if count > bounds.MAX_ROWS:
            raise bounds.too_many(file)
        if row is not None:
            yield row


def _file(file: str, wanted: Collection[str]) -> Iterator[bounds.Read]:
    path = Path(file).expanduser()
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"data set {file}: its name ends in none of {', '.join(READERS)}, nor begins with {HUB}")
    try:
        with open_to_read(path) as content:
            if os.fstat(content.fileno()).st_size > bounds.MAX_FILE_BYTES:
                raise bounds.too_large(file)
            yield from reader(content, wanted)
    except FileNotFoundError as error:
        raise UserError(f"data set {file} does not exist") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"data set {file} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _json_lines(content: BinaryIO, wanted: Collection[str]) -> Iterator[bounds.Read]:
    while line := content.readline(bounds.MAX_ROW_BYTES + 1):
        if len(line) > bounds.MAX_ROW_BYTES:
            while line and not line.endswith(b"\n"):
                line = content.readline(bounds.MAX_ROW_BYTES)
            yield bounds.TOO_LONG
        else:
            yield _json_row(line) if line.strip() else None


def _json_row(line: bytes) -> bounds.Row | str:
    try:
        value = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return bounds.NO_OBJECT
    return value if isinstance(value, dict) else bounds.NO_OBJECT


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _csv(content: BinaryIO, wanted: Collection[str]) -> Iterator[bounds.Read]:
    text, left = io.TextIOWrapper(content, encoding="utf-8-sig", newline=""), bounds.MAX_ROW_BYTES

    def lines() -> Iterator[str]:
        """A row may be several of them, where a cell is in quotes."""
        nonlocal left
        while line := text.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise csv.Error("a row is above 1 MB: it has no line break, or a quotation mark that is never closed")
            yield line

    csv.field_size_limit(bounds.MAX_ROW_BYTES)
    header: list[str] = []
    for cells in csv.reader(lines()):
        left = bounds.MAX_ROW_BYTES
        if len(cells) > bounds.MAX_COLUMNS:
            raise csv.Error(f"a row has {len(cells)} cells, and {bounds.MAX_COLUMNS} are the most")
        if not cells:
            yield None
        elif not header:
            header = cells
            places = {name: place for place, name in enumerate(header) if name in wanted}
            others = dict.fromkeys([name for name in header if name not in wanted][: bounds.SHOWN_COLUMNS])
        else:
            yield {**others, **{name: cells[place] for name, place in places.items() if place < len(cells)}}


def _parquet(content: BinaryIO, wanted: Collection[str]) -> Iterator[bounds.Read]:
    try:
        from swarm_node.extensions.dataset import parquet
    except ImportError as error:
        raise _missing("Parquet files") from error
    return parquet.rows(content, wanted)


def _hub(name: str) -> Iterator[bounds.Read]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise _missing("data sets of the hub") from error
    repository, config, split = [*name.split(":"), "", ""][:3]
    if not repository:
        raise UserError(f"{HUB} names no data set: write {HUB}NAME, {HUB}NAME:CONFIG or {HUB}NAME:CONFIG:SPLIT")
    try:
        yield from load_dataset(repository, config or None, split=split or "train", streaming=True)
    except Exception as error:  # whatever the library raises of a name, a network or a file
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"data set {HUB}{name} cannot be loaded: {printable(first)}") from error


def _missing(what: str) -> UserError:
    return UserError(f"{what} need the extra data: pip install 'swarm-node[data]'")


READERS: Mapping[str, Callable[[BinaryIO, Collection[str]], Iterator[bounds.Read]]] = {
    ".jsonl": _json_lines,
    ".csv": _csv,
    ".parquet": _parquet,
}
