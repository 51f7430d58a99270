"""Rows out of a file: JSON Lines, CSV, Parquet, or a data set of the Hugging Face hub.

Runs in the process of `compile.py`, with the user's environment: the file is the user's, and some readers are heavy.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from swarm_node.common.errors import UserError

MAX_ROW_BYTES = 1024 * 1024  # of one line: what is longer is left out, and never held in memory whole
HUB = "hf:"

Row = Mapping[str, Any]

TOO_LONG, NO_OBJECT = "row above 1 MB", "no JSON object"


def rows(file: str) -> Iterator[Row | str]:
    """Each row by its columns, or the reason why it is left out. UserError where the file cannot be read."""
    if file.startswith(HUB):
        yield from _hub(file.removeprefix(HUB))
        return
    path = Path(file).expanduser()
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"data set {file}: its name ends in none of {', '.join(READERS)}, nor begins with {HUB}")
    try:
        yield from reader(path)
    except FileNotFoundError as error:
        raise UserError(f"data set {file} does not exist") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"data set {file} cannot be read: {error}") from error


def _json_lines(path: Path) -> Iterator[Row | str]:
    with path.open("rb") as lines:
        while line := lines.readline(MAX_ROW_BYTES + 1):
            if len(line) > MAX_ROW_BYTES:
                while line and not line.endswith(b"\n"):
                    line = lines.readline(MAX_ROW_BYTES)
                yield TOO_LONG
            elif line.strip():
                yield _json_row(line)


def _json_row(line: bytes) -> Row | str:
    try:
        value = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return NO_OBJECT
    return value if isinstance(value, dict) else NO_OBJECT


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _csv(path: Path) -> Iterator[Row | str]:
    csv.field_size_limit(64 * MAX_ROW_BYTES)
    with path.open(encoding="utf-8-sig", newline="") as lines:
        for row in csv.DictReader(lines):
            cells = {name: cell for name, cell in row.items() if isinstance(name, str) and isinstance(cell, str)}
            yield TOO_LONG if sum(map(len, cells.values())) > MAX_ROW_BYTES else cells


def _parquet(path: Path) -> Iterator[Row | str]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise _missing("Parquet files") from error
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(1024):
                yield from batch.to_pylist()
    except ArrowException as error:
        raise UserError(f"data set {path} is no Parquet file: {str(error).splitlines()[0]}") from error


def _hub(name: str) -> Iterator[Row | str]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise _missing("data sets of the hub") from error
    repository, config, split = [*name.split(":"), "", ""][:3]
    try:
        yield from load_dataset(repository, config or None, split=split or "train", streaming=True)
    except Exception as error:  # whatever the library raises of a name, a network or a file
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"data set {HUB}{name} cannot be loaded: {first[:200]}") from error


def _missing(what: str) -> UserError:
    return UserError(f"{what} need the extra data: pip install 'swarm-node[data]'")


READERS = {".jsonl": _json_lines, ".csv": _csv, ".parquet": _parquet}
