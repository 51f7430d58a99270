"""Rows out of a CSV file, as spreadsheets and people write them.

A row that does not fit the header is not a row: a comma too many in a sentence would cut the
sentence, and a quotation mark that is never closed would swallow the rows behind it. Such a row is
skipped, and named by its line. Everything else here finds out how the file is written: the encoding
by its first bytes, the separator by its header, and whether a space stands behind a separator.

`sep=;` in the first line is how some spreadsheets name the separator. A row of empty cells is a
blank line, and empty cells behind the last column are none.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO

from swarm_node.common.errors import UserError, printable
from swarm_node.environments.dataset import bounds

SEPARATORS = ",;\t|"  # the one that is most frequent in the header
HEADER_CHARS = 64 * 1024  # that are read to find the separator
NAMED_SEPARATOR = re.compile(r"sep=(.)\r?\n?", re.IGNORECASE)
QUOTED = re.compile('"[^"]*"')
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

BAD_QUOTES = "a quotation mark inside a cell, or one that is never closed"


class _Endless(csv.Error):
    """A row is above the bound: the file is not read on."""


def rows(
    content: BinaryIO, wanted: Collection[str], file_name: str
) -> Iterator[tuple[int, bounds.Read]]:
    """Each row with its first line. UserError or csv.Error where the file is no such table."""
    text = text_of(content, file_name)
    budget = _Budget(text)
    reader, names_separator = _reader(text, budget)
    csv.field_size_limit(bounds.MAX_ROW_BYTES)
    table: _Table | None = None
    for first, last, cells in _cut(reader, budget):
        if isinstance(cells, csv.Error):
            if table is None:
                raise UserError(
                    f"data set {file_name}: its header, line {first}, has {BAD_QUOTES}; write a "
                    'quotation mark inside of quotes as ""'
                ) from cells
            # All lines that the quotation mark swallowed, since each may have been a row
            yield from ((line, BAD_QUOTES) for line in range(first, last + 1))
        elif not any(map(str.strip, cells)) or (first == 1 and names_separator):
            yield first, None
        elif table is None:
            table = _Table(cells, wanted, file_name)
        else:
            yield first, table.row(cells)


def _reader(text: io.TextIOWrapper, budget: "_Budget") -> tuple[Any, bool]:
    """A reader for the way in which this file is written, and whether its first line names the
    separator.
    """
    begin = text.read(HEADER_CHARS).lstrip("\r\n")
    text.seek(0)
    named = NAMED_SEPARATOR.match(begin)
    if named:
        begin = begin[named.end() :]
    plain = QUOTED.sub("", begin.partition("\n")[0])
    separator = named[1] if named else max(SEPARATORS, key=plain.count)
    spaced = f"{separator} " in plain or f'"{separator} "' in begin
    lines = budget.lines()
    reader = csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=spaced)
    return reader, named is not None


def _cut(reader: Any, budget: "_Budget") -> Iterator[tuple[int, int, list[str] | csv.Error]]:
    """The cells of each row between its first and its last line, or what is wrong with its
    quotation marks.
    """
    last = 0
    while True:
        first, cells = last + 1, None
        try:
            cells = next(reader)
        except StopIteration:
            return
        except _Endless:
            raise
        except csv.Error as error:
            cells = error
        if not isinstance(cells, csv.Error) and len(cells) > bounds.MAX_COLUMNS:
            raise csv.Error(f"a row has {len(cells)} cells, and {bounds.MAX_COLUMNS} are the most")
        last, budget.left = reader.line_num, bounds.MAX_ROW_BYTES
        yield first, last, cells


class _Budget:
    """The lines of a file, and how many characters of the row they belong to are left."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text, self.left = text, bounds.MAX_ROW_BYTES

    def lines(self) -> Iterator[str]:
        """A row may be several of them, where a cell is in quotes."""
        while line := self._text.readline(self.left + 1):
            self.left -= len(line)
            if self.left < 0:
                raise _Endless(
                    "a row is above 1 MB: it has no line break, or a quotation mark that is never "
                    "closed"
                )
            yield line


class _Table:
    """The columns that a header names."""

    def __init__(self, header: Sequence[str], wanted: Collection[str], name: str) -> None:
        names = [cell.strip() for cell in header]
        while names and not names[-1]:
            names.pop()
        counts = Counter(names)
        for column in names:
            if column in wanted and counts[column] > 1:
                raise UserError(
                    f"data set {name}: its header names the column {printable(column, 40)} "
                    f"{counts[column]} times; give each column a name of its own"
                )
        self._width = len(names)
        self._places = {column: k for k, column in enumerate(names) if column in wanted}
        others = [column for column in names if column not in wanted]
        self._others = dict.fromkeys(others[: bounds.SHOWN_COLUMNS])

    def row(self, cells: Sequence[str]) -> bounds.Read:
        """The row by its columns, or why it is skipped."""
        if len(cells) < self._width:
            return bounds.TOO_SHORT
        if any(map(str.strip, cells[self._width :])):
            return bounds.TOO_WIDE
        return {**self._others, **{column: cells[k] for column, k in self._places.items()}}


def text_of(content: BinaryIO, file_name: str) -> io.TextIOWrapper:
    """The file as text: UTF-8, or UTF-16 with its mark. UserError for UTF-16 without one."""
    begin = content.read(512)
    content.seek(0)
    if begin.startswith(UTF_16):
        return io.TextIOWrapper(content, encoding="utf-16", newline="")
    if b"\0" in begin[:64] and not begin.startswith(b"\0" * 64):
        raise UserError(
            f"data set {file_name} holds zero bytes, as UTF-16 without its mark does: save it "
            "as UTF-8 (in a spreadsheet: CSV UTF-8)"
        )
    return io.TextIOWrapper(content, encoding="utf-8-sig", newline="")


def not_utf8(name: str, error: UnicodeDecodeError) -> UserError:
    """The error for a file in another encoding. Which one it is cannot be known from its bytes, and
    a wrong guess would change letters in silence.
    """
    byte = error.object[error.start]
    return UserError(
        f"data set {name} cannot be read: it is not UTF-8 (byte 0x{byte:02x}), but perhaps Latin-1 "
        "or Windows-1252: save it as UTF-8 (in a spreadsheet: CSV UTF-8)"
    )
