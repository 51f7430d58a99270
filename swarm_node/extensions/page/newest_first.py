"""A node of many rounds: the last ones are shown at once, and all of them when all have been read."""

from pathlib import Path
from typing import Any

from swarm_node.extensions.page.node import NodeWatch

END = 1024 * 1024  # bytes of the events that are shown at once: more rounds than `history.RECENT` in most runs


class NewestFirst:
    """Implements watched.Watched. While the whole is read, a portion at a time, a second reader follows the end."""

    kind = "node"

    def __init__(self, home: Path, end: int = END) -> None:
        self._whole = NodeWatch(home)
        self._newest: NodeWatch | None = NodeWatch(home, end) if _large(home, end) else None
        self.partial = False

    @property
    def whole(self) -> NodeWatch | None:
        """None until all has been read once."""
        return None if self._newest else self._whole

    def read(self) -> bool:
        if self._newest is None:
            return self._whole.read()
        if self._newest.read():
            return True
        self.partial = True
        if not self._whole.read():
            self._whole.anew(self._newest.state()["serial"])
            self._newest, self.partial = None, False
        return True

    def state(self) -> dict[str, Any]:
        return self._shown.state()

    def news(self, serial: int) -> list[tuple[int, dict[str, Any]]] | None:
        return self._shown.news(serial)

    @property
    def _shown(self) -> NodeWatch:
        return self._newest or self._whole


def _large(home: Path, end: int) -> bool:
    try:
        return (home / "events.jsonl").stat().st_size > end
    except OSError:
        return False
