"""Events as JSON lines: one object a line, append-only, readable while it is written. Not a
database.

Every line reaches the operating system before the next event, so a killed run loses at most its
last line. A part of a line on a full disk is cut off again. A part that a kill left is cut off when
the file is next opened.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swarm_node.common.errors import reason_of
from swarm_node.common.files import open_to_read, open_to_write, plain
from swarm_node.common.parsing import parse_json
from swarm_node.telemetry.events import Event

LONGEST = 8 * 1024 * 1024  # bytes of a line; a longer one is skipped
MOST = 1024 * 1024 * 1024  # bytes of a file that are read; a node begins another at a tenth
PIECE = 65536  # bytes that are looked at together for the end of the last whole line


class Lines:
    """A file that whole lines are appended to. Raises OSError where it cannot be opened or
    written.
    """

    def __init__(self, path: Path) -> None:
        self._file = open_to_write(path, append=True, mode=None)
        self._in_line = False  # whether a part of a line could not be cut off
        if self.size:
            self._cut(_end_of_lines(path))

    @property
    def size(self) -> int:
        return self._file.tell()

    def append(self, line: bytes) -> None:
        """`line` ends with a line break. A disk that fills up may take a part, and refuse the
        rest.
        """
        before = self._file.tell()
        view = memoryview(b"\n" + line if self._in_line else line)
        try:
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError:
            self._cut(before)
            raise
        self._in_line = False

    def close(self) -> None:
        self._file.close()

    def _cut(self, size: int) -> None:
        if self._file.tell() == size:
            return
        try:
            self._file.truncate(size)
            self._file.seek(size)
        except OSError:
            self._in_line = True


def _end_of_lines(path: Path) -> int:
    """Bytes up to and including the last line break."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - PIECE)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


class JsonLines:
    """A sink that appends to `path`. If it cannot write it calls `warn` once, and tries again at
    later events.
    """

    def __init__(
        self,
        path: Path,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.time,
        most: int = 0,
    ) -> None:
        """`most`: bytes at which the file is put aside and a new one begun; 0 for no limit."""
        self._path, self._warn, self._clock, self._most = path, warn, clock, most
        self._warned = False
        self._lines = Lines(path)

    def take(self, event: Event) -> None:
        if not event.written:
            return
        record = {
            "time": round(self._clock(), 3),
            "event": type(event).__name__,
            **plain(asdict(event)),
        }
        line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        try:
            self._rotate()
            self._lines.append(line)
        except OSError as error:
            if not self._warned:
                self._warned = True
                self._warn(
                    f"cannot write {self._path}: {reason_of(error)}; make room there: "
                    "the run continues without some of its events"
                )

    def close(self) -> None:
        self._lines.close()

    def _rotate(self) -> None:
        """Puts a large file aside, in place of the one put aside before, and begins a new one."""
        if not self._most or self._lines.size < self._most:
            return
        self._path.rename(self._path.with_suffix(f".1{self._path.suffix}"))
        self._lines.close()
        self._lines = Lines(self._path)


def record_of(line: bytes) -> dict[str, Any] | None:
    """The object in a line; None if the line holds no JSON object. NaN and Infinity are no JSON."""
    try:
        record = parse_json(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def read_jsonlines(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a run, the oldest first, without lines that were cut off, are no objects, or
    have no end. Of a file larger than MOST bytes, those at its end. Raises OSError where it cannot
    be read, or is a link.
    """
    with open_to_read(path, follow=False) as file:
        begin = max(0, os.fstat(file.fileno()).st_size - MOST)
        file.seek(begin)
        whole = begin == 0  # whether a line begins here
        while line := file.readline(LONGEST):
            begins, whole = whole, line.endswith(b"\n")
            if begins and (record := record_of(line)) is not None:
                yield record
