"""Rows out of a file: JSON Lines or an array of JSON, CSV with commas, semicolons or tabs, Parquet,
or a data set of the Hugging Face hub.

Runs in the process of `compile.py`, since some readers are heavy. The file is the user's, but it
may come from a stranger all the same, so what a reader holds at a time is bounded before it is
parsed.
"""

import csv
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from swarm_node.common.errors import UserError
from swarm_node.common.files import open_to_read
from swarm_node.environments.dataset import bounds, hub, json_rows, table
from swarm_node.environments.dataset.hub import HUB

Placed = tuple[int, bounds.Read]


def rows(file: str, wanted: Collection[str]) -> Iterator[tuple[int, bounds.Row | str]]:
    """Each row with its number: of its line, or of the row where a file has no lines. A row comes
    by its columns, or as the reason why it is skipped. Columns that are not `wanted` may be None.
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
            yield from reader(content, wanted, file)
    except FileNotFoundError as error:
        raise UserError(
            f"data set {file} does not exist: a path in a configuration is "
            "relative to that file, and any other to this folder"
        ) from error
    except UnicodeDecodeError as error:
        raise table.not_utf8(file, error) from error
    except (OSError, csv.Error) as error:
        raise UserError(
            f"data set {file} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def _parquet(content: BinaryIO, wanted: Collection[str], file: str) -> Iterator[Placed]:
    try:
        from swarm_node.environments.dataset import parquet
    except ImportError as error:
        raise _missing("Parquet files") from error
    return enumerate(parquet.rows(content, wanted, file), 1)


def _missing(what: str) -> UserError:
    return UserError(f"{what} need the extra data: pip install 'textswarm[data]'")


READERS: Mapping[str, Callable[[BinaryIO, Collection[str], str], Iterator[Placed]]] = {
    ".jsonl": json_rows.rows,
    ".csv": table.rows,
    ".tsv": table.rows,
    ".parquet": _parquet,
    ".json": json_rows.rows,
}
