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
    """Follows the ring."""

    def __init__(self, folder: Path) -> None:
        self._tail = Tail(folder / FILE, folder / OLDER)
        self._last: deque[dict[str, Any]] = deque(maxlen=SHOWN)
        self.number = 0  # of samples seen

    def read(self) -> None:
        more = True
        while more:
            records, more = self._tail.read()
            for record in records:
                with suppress(KeyError, ValueError):
                    self._last.append(checked.sample(record))
                    self.number += 1

    def last(self) -> list[dict[str, Any]]:
        """The newest first."""
        return list(reversed(self._last))
