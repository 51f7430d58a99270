"""Rows out of a file: JSON Lines, CSV with commas, semicolons or tabs, Parquet, or a data set of
the Hugging Face hub.

Runs in the process of `compile.py`, since some readers are heavy. The file is the user's, but it
may come from a stranger all the same, so what a reader holds at a time is bounded before it is
parsed.
"""

import csv
import io
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from swarm_node.common.errors import UserError
from swarm_node.common.files import open_to_read
from swarm_node.extensions.dataset import bounds, hub
from swarm_node.extensions.dataset.hub import HUB
from swarm_node.telemetry.jsonlines import record_of

SEPARATORS = ",;\t"  # of a CSV file: the one that is most frequent in its header
HEADER_CHARS = 64 * 1024  # that are read to find the separator

Placed = tuple[int, bounds.Read]


def rows(file: str, wanted: Collection[str]) -> Iterator[tuple[int, bounds.Row | str]]:
    """Each row with its number: of its line, or of the row where a file has no lines. A row comes
    by its columns, or as the reason why it is left out. Columns that are not `wanted` may be None.
    UserError where the file cannot be read, or exceeds a bound of `bounds.py`.
    """
    is_hub = file.startswith(HUB)
    found = hub.rows(file.removeprefix(HUB)) if is_hub else _file(file, wanted)
    for count, (place, row) in enumerate(found, 1):
        if count > bounds.MAX_ROWS:
            raise bounds.too_many(file)
        if row is not None:
            yield place, row


def _file(file: str, wanted: Collection[str]) -> Iterator[Placed]:
    path = Path(file).expanduser()
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(
            f"data set {file}: its name ends in none of {', '.join(READERS)}, nor begins with "
            f"{HUB}; rename the file, or name a data set of the hub as {HUB}NAME"
        )
    try:
        with open_to_read(path) as content:
            if os.fstat(content.fileno()).st_size > bounds.MAX_FILE_BYTES:
                raise bounds.too_large(file)
            yield from reader(content, wanted)
    except FileNotFoundError as error:
        raise UserError(
            f"data set {file} does not exist: a path of a configuration is relative to it, another "
            "to this folder"
        ) from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"data set {file} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def _json_lines(content: BinaryIO, wanted: Collection[str]) -> Iterator[Placed]:
    number = 0
    while line := content.readline(bounds.MAX_ROW_BYTES + 1):
        number += 1
        if len(line) > bounds.MAX_ROW_BYTES:
            while line and not line.endswith(b"\n"):
                line = content.readline(bounds.MAX_ROW_BYTES)
            yield number, bounds.TOO_LONG
        else:
            row = record_of(line)
            yield number, None if not line.strip() else bounds.NO_OBJECT if row is None else row


def _csv(content: BinaryIO, wanted: Collection[str]) -> Iterator[Placed]:
    text, left = io.TextIOWrapper(content, encoding="utf-8-sig", newline=""), bounds.MAX_ROW_BYTES

    def lines() -> Iterator[str]:
        """The lines of the file. A row may be several of them, where a cell is in quotes."""
        nonlocal left
        while line := text.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise csv.Error(
                    "a row is above 1 MB: it has no line break, or a quotation mark that is never "
                    "closed"
                )
            yield line

    csv.field_size_limit(bounds.MAX_ROW_BYTES)
    header: list[str] = []
    begin = text.read(HEADER_CHARS).lstrip("\r\n").partition("\n")[0]
    text.seek(0)
    plain = re.sub('"[^"]*"', "", begin)
    reader, place = csv.reader(lines(), delimiter=max(SEPARATORS, key=plain.count)), 1
    for cells in reader:
        # The first line of this row, and that of the next row
        line, place = place, reader.line_num + 1
        left = bounds.MAX_ROW_BYTES
        if len(cells) > bounds.MAX_COLUMNS:
            raise csv.Error(f"a row has {len(cells)} cells, and {bounds.MAX_COLUMNS} are the most")
        if not cells:
            yield line, None
        elif not header:
            header = cells
            places = {name: k for k, name in enumerate(header) if name in wanted}
            others = dict.fromkeys(
                [name for name in header if name not in wanted][: bounds.SHOWN_COLUMNS]
            )
        else:
            yield (
                line,
                {**others, **{name: cells[k] for name, k in places.items() if k < len(cells)}},
            )


def _parquet(content: BinaryIO, wanted: Collection[str]) -> Iterator[Placed]:
    try:
        from swarm_node.extensions.dataset import parquet
    except ImportError as error:
        raise _missing("Parquet files") from error
    return enumerate(parquet.rows(content, wanted), 1)


def _missing(what: str) -> UserError:
    return UserError(f"{what} need the extra data: pip install 'textswarm[data]'")


READERS: Mapping[str, Callable[[BinaryIO, Collection[str]], Iterator[Placed]]] = {
    ".jsonl": _json_lines,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}
