"""A file that whole lines are appended to, readable while it grows.

A line is there whole or not at all: what a full disk took of one is cut off again, and so is what a kill left of the
last one, when the file is opened next.
"""

import os
from pathlib import Path

from swarm_node.common import private

PIECE = 65536  # bytes that are looked at together for the end of the last whole line


class Lines:
    """Every line reaches the operating system before the next. OSError where it cannot be opened or written."""

    def __init__(self, path: Path) -> None:
        self._file = private.open_to_write(path, append=True, mode=None)
        self._in_line = False  # a part of a line could not be cut off
        if self.size:
            self._cut(_end_of_lines(path))

    @property
    def size(self) -> int:
        """Bytes."""
        return self._file.tell()

    def append(self, line: bytes) -> None:
        """`line` ends with a line break. A disk that fills up may take a part, and refuse the rest."""
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
    """Bytes up to the last line break."""
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
