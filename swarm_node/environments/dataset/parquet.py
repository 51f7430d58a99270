"""Rows out of a Parquet file, which may come from a stranger.

The sizes in its footer are its author's claim. They are checked first, since that costs nothing,
and what is decoded is counted all the same. A page of some bytes can stand for gigabytes: one long
text in a dictionary with a million rows that refer to it, or a list of as many nulls. So rows are
decoded a few at a time, only the columns that are asked for, and weighed before they become Python
objects. What one page can take at once is bounded by the process's memory limit.
"""

import os
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

import pyarrow
from pyarrow import compute
from pyarrow.parquet import ParquetFile

from swarm_node.common.errors import UserError, printable
from swarm_node.environments.dataset import bounds

TOGETHER = 64  # rows that are decoded at a time
MAX_FOOTER_BYTES = 16 * 1024 * 1024
MAX_FOOTER_ITEMS = 100_000  # of one list in the footer: columns, row groups
BUFFER_BYTES = 1024 * 1024  # of a column that are read at a time
ITEM_BYTES = 8  # the least that a value weighs, since a null takes no bytes in Arrow


def rows(content: BinaryIO, wanted: Collection[str], file_name: str) -> Iterator[bounds.Read]:
    """The rows, as in `reading.rows`, without numbers. Raises UserError where it is not a Parquet
    file, or exceeds a bound.
    """
    _check_footer(content, file_name)
    try:
        with ParquetFile(
            content,
            pre_buffer=False,
            buffer_size=BUFFER_BYTES,
            thrift_string_size_limit=MAX_FOOTER_BYTES,
            thrift_container_size_limit=MAX_FOOTER_ITEMS,
        ) as file:
            yield from _rows(file, wanted, file_name)
    except (UserError, MemoryError):
        raise
    except Exception as error:  # whatever the library raises for a file that somebody made up
        raise UserError(
            f"data set {file_name} is not a Parquet file: {printable(str(error))}; write it again, "
            "or name it after what it is"
        ) from error


def _rows(file: ParquetFile, wanted: Collection[str], name: str) -> Iterator[bounds.Read]:
    names = file.schema_arrow.names
    columns = [name for name in names if name in wanted]
    others = dict.fromkeys([name for name in names if name not in wanted][: bounds.SHOWN_COLUMNS])
    _check_claims(file, columns, name)
    weighed = 0
    for batch in file.iter_batches(TOGETHER, columns=columns, use_threads=False):
        weight = sum(map(weigh, batch.columns))
        weighed += weight
        if weighed > bounds.MAX_FILE_BYTES:
            raise bounds.too_large(name)
        if weight <= bounds.MAX_ROW_BYTES:
            yield from ({**others, **row} for row in batch.to_pylist())
            continue
        for row in (batch.slice(place, 1) for place in range(batch.num_rows)):
            heavy = sum(map(weigh, row.columns)) > bounds.MAX_ROW_BYTES
            yield bounds.TOO_LONG if heavy else {**others, **row.to_pylist()[0]}


def weigh(array: Any) -> int:
    """Bytes of the values of an Arrow array. A value that many rows share counts once for each of
    them.
    """
    kind, types = array.type, pyarrow.types
    own: int = len(array) * ITEM_BYTES
    if types.is_dictionary(kind):
        # Of text and bytes: Parquet has no others
        lengths = compute.binary_length(array.dictionary)
        return own + (compute.sum(lengths.take(array.indices)).as_py() or 0)
    if types.is_struct(kind):
        return own + sum(map(weigh, array.flatten()))
    tests = types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_map
    if any(is_nested(kind) for is_nested in tests):
        return own + weigh(array.flatten())
    return own + int(array.nbytes)


def _check_footer(content: BinaryIO, file_name: str) -> None:
    """UserError for a footer that is too long: its length stands before the last four bytes.
    Rewinds the file.
    """
    content.seek(max(0, os.fstat(content.fileno()).st_size - 8))
    if int.from_bytes(content.read(4), "little") > MAX_FOOTER_BYTES:
        raise UserError(
            f"data set {file_name} is not a Parquet file: its footer is above "
            f"{MAX_FOOTER_BYTES >> 20} MB; write it again"
        )
    content.seek(0)


def _check_claims(file: ParquetFile, columns: Collection[str], name: str) -> None:
    """Checks the sizes that the footer claims, so that an honest file that is too large is refused
    at once.
    """
    about, claimed = file.metadata, 0
    if about.num_rows > bounds.MAX_ROWS:
        raise bounds.too_many(name)
    for group in (about.row_group(number) for number in range(about.num_row_groups)):
        for chunk in (group.column(number) for number in range(group.num_columns)):
            if chunk.path_in_schema.partition(".")[0] in columns or chunk.path_in_schema in columns:
                claimed += max(0, chunk.total_uncompressed_size)
    if claimed > bounds.MAX_FILE_BYTES:
        raise bounds.too_large(name)
