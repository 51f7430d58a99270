"""What a file of questions may hold, whichever reader reads it, and what a reader gives for a
row.
"""

from collections.abc import Mapping
from typing import Any

from swarm_node.common.errors import UserError

# Of a file, and of those columns of a Parquet file that are read, decompressed
MAX_FILE_BYTES = 1024 * 1024 * 1024
MAX_ROWS = 1_000_000  # blank lines and rows that are skipped count
MAX_ROW_BYTES = 1024 * 1024  # of one row: a longer row is skipped, and never held whole in memory
MAX_COLUMNS = 1024  # of a CSV file
SHOWN_COLUMNS = 64  # unread columns whose names a row keeps for messages

Row = Mapping[str, Any]
Read = Row | str | None  # a row, why it is skipped, or None for a blank line

TOO_LONG, NO_OBJECT = "row above 1 MB", "no JSON object"
TOO_WIDE = "more cells than the header has (a separator in a text needs quotes around the text)"
TOO_SHORT = "fewer cells than the header has"


def too_large(file: str) -> UserError:
    """The error for a file above MAX_FILE_BYTES."""
    return UserError(
        f"data set {file} is above {MAX_FILE_BYTES >> 20} MB: use a part of it, or leave out "
        "columns that no question needs"
    )


def too_many(file: str) -> UserError:
    """The error for a file of more than MAX_ROWS rows."""
    return UserError(
        f"data set {file} has more than {MAX_ROWS} rows: use a part of it (blank lines count)"
    )
