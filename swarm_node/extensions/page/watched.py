"""What a page shows of: the seam between those who read a run and those who send it to browsers."""

from collections import deque
from typing import Any, Protocol

KEPT = 128  # pieces of news; whoever is further behind begins anew


class Watched(Protocol):
    """A run as the page sees it. Only `read` touches files, a portion at a time."""

    kind: str  # "node" or "simulation": what the browser draws

    @property
    def partial(self) -> bool:
        """Whether `state` has the newest rounds already, while older ones are still being read."""
        ...

    def read(self) -> bool:
        """Take in a portion of what was written since; whether there may be more at once."""
        ...

    def state(self) -> dict[str, Any]:
        """All that a browser needs to begin with, as plain data; `serial` says where `news` goes on."""
        ...

    def news(self, serial: int) -> "list[tuple[int, dict[str, Any]]] | None":
        """What came after `serial`, each piece with its own serial; None where the browser had better begin anew."""
        ...


class News:
    """The last pieces of news, by a serial number that only grows."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, dict[str, Any]]] = deque(maxlen=KEPT)
        self._reset = 0  # the serial of the last time that everything changed
        self.serial = 0

    def add(self, piece: dict[str, Any]) -> None:
        """One thing that happened."""
        self.serial += 1
        self._pieces.append((self.serial, piece))

    def anew(self, serial: int = 0) -> None:
        """Everything changed: no piece says how. `serial`: the last one that browsers have had, if not from here."""
        self.serial = max(self.serial, serial) + 1
        self._reset = self.serial
        self._pieces.clear()

    def after(self, serial: int) -> list[tuple[int, dict[str, Any]]] | None:
        """As `Watched.news`."""
        if serial > self.serial or serial < self._reset or (self._pieces and serial < self._pieces[0][0] - 1):
            return None
        return [piece for piece in self._pieces if piece[0] > serial]
