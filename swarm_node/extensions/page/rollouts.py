"""The samples of rollouts that a node keeps, as the page has them: the last ones, in memory."""

from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from swarm_node.extensions.page import checked
from swarm_node.extensions.page.tail import Tail
from swarm_node.telemetry.samples import FILE, OLDER

SHOWN = 48


class SamplesWatch:
    """Follows the ring: the older half once, then what is added."""

    def __init__(self, folder: Path) -> None:
        self._older, self._newer = Tail(folder / OLDER), Tail(folder / FILE)
        self._last: deque[dict[str, Any]] = deque(maxlen=SHOWN)
        self._began = False
        self.number = 0  # of samples seen

    def read(self) -> None:
        """Take in what is new."""
        if not self._began:
            self._began = True
            self._drain(self._older)
            self._older.close()
        self._drain(self._newer)

    def _drain(self, tail: Tail) -> None:
        more = True
        while more:
            records, more = tail.read()
            for record in records:
                with suppress(KeyError, ValueError):
                    self._last.append(checked.sample(record))
                    self.number += 1

    def last(self) -> list[dict[str, Any]]:
        """The newest first."""
        return list(reversed(self._last))
