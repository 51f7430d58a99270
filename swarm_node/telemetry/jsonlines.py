"""Events as JSON lines: one object a line, append-only, readable while it is written. Not a database.

Every line reaches the operating system before the next event, so a killed run loses at most its last line. A kill or a
full disk may leave a part of a line. It stays a line of its own, and readers skip it.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swarm_node.common import private, renamed
from swarm_node.common.files import plain
from swarm_node.telemetry.events import Event


class JsonLines:
    """A sink that appends to `path`. If it cannot write it calls `warn` once, and tries again at later events."""

    def __init__(
        self,
        path: Path,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.time,
        *,
        fresh: bool = False,
        most: int = 0,
    ) -> None:
        """`fresh`: what is there is written over. `most`: bytes at which the file is put aside; 0 for no end."""
        self._path, self._warn, self._clock, self._most = path, warn, clock, most
        self._warned = False
        self._file = private.open_to_write(path, append=not fresh, mode=None)
        self._in_line = not _ends_a_line(path)  # whether the file stops in the middle of a line

    def take(self, event: Event) -> None:
        record = {
            "time": round(self._clock(), 3),
            "event": type(event).__name__,
            **renamed.beside(plain(asdict(event))),
        }
        line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        try:
            self._rotate()
            self._append(b"\n" + line if self._in_line else line)
        except OSError as error:
            if not self._warned:
                self._warned = True
                self._warn(f"cannot write {self._path}: {error.strerror}; the run goes on without some of its events")

    def close(self) -> None:
        self._file.close()

    def _rotate(self) -> None:
        """Begins a new file where this one is large; the one before the last goes."""
        if not self._most or self._file.tell() < self._most:
            return
        self._path.rename(self._path.with_suffix(f".1{self._path.suffix}"))
        self._file.close()
        self._file, self._in_line = private.open_to_write(self._path, append=True, mode=None), False

    def _append(self, content: bytes) -> None:
        """Writes one event. A disk that fills up may take a part, and refuses the rest at the second write."""
        view = memoryview(content)
        while view:
            written = self._file.write(view)
            view = view[written or 0 :]
            self._in_line = bool(view)


def read_jsonlines(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a run, the oldest first, without lines that were cut off."""
    with path.open("rb") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            file.seek(-1, os.SEEK_END)
        except OSError:  # an empty file, or one without seek
            return True
        return file.read(1) == b"\n"
