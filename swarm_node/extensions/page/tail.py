"""What was added to a file of JSON lines since one looked last, in portions."""

import os
from pathlib import Path
from typing import Any, BinaryIO

from swarm_node.common.files import open_to_read
from swarm_node.telemetry.jsonlines import LONGEST, record_of

PORTION = 256 * 1024  # bytes read at a time: a hundredth of a second, in which no viewer is served


class Tail:
    """Follows one file by its path. A line counts when it is whole; one that is broken is skipped."""

    def __init__(self, path: Path, older: Path) -> None:
        """`older`: where the file is put when it is large and a new one begins. It is read first, once; and when an
        open file is put there, reading goes on in the new one."""
        self._path, self._older = path, older
        self._first: Path | None = older
        self._file: BinaryIO | None = None
        self._rest = b""  # of a line that is not whole yet
        self._skipping = False  # the line is too long: up to its end nothing counts
        self.restarts = 0  # how often the file was replaced or shortened, and is read from its start again

    def read(self) -> tuple[list[dict[str, Any]], bool]:
        """The next records, and whether there may be more at once. No file, or something else in
        its place, is the same as an empty one."""
        if self._replaced():
            self._begin_anew()
        try:
            self._file = self._file or self._opened()
            turned = self._is(self._older)
            data = self._file.read(PORTION)
            if turned and not data:
                following = open_to_read(self._path)
                self._file.close()
                self._file, data = following, following.read(PORTION)
        except OSError:
            return [], False
        more = len(data) == PORTION or (turned and bool(data))
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self._skipping and lines:
            lines, self._skipping = lines[1:], False
        if len(self._rest) > LONGEST:
            self._rest, self._skipping = b"", True
        return [record for line in lines if (record := record_of(line)) is not None], more

    def _begin_anew(self) -> None:
        if self._file is not None:
            self._file.close()
            self.restarts += 1
        self._file, self._rest, self._skipping = None, b"", False

    def _opened(self) -> BinaryIO:
        first, self._first = self._first, None
        try:
            return open_to_read(first or self._path)
        except OSError:
            return open_to_read(self._path)

    def _is(self, path: Path) -> bool:
        """Whether the open file lies there."""
        try:
            return self._file is not None and path.stat().st_ino == os.fstat(self._file.fileno()).st_ino
        except OSError:
            return False

    def _replaced(self) -> bool:
        """Whether another file lies in the place of the open one, or it was shortened."""
        if self._file is None or self._is(self._older):
            return False
        return not self._is(self._path) or os.fstat(self._file.fileno()).st_size < self._file.tell()
