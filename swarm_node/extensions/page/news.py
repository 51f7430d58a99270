"""What has happened lately, for browsers that follow a run."""

from collections import deque
from typing import Any

KEPT = 128  # pieces of news; whoever is further behind begins anew


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

    def anew(self) -> None:
        """Everything changed: no piece says how."""
        self.serial += 1
        self._reset = self.serial
        self._pieces.clear()

    def after(self, serial: int) -> list[tuple[int, dict[str, Any]]] | None:
        """What came after `serial`, each piece with its own serial; None where the browser had better begin anew."""
        if serial > self.serial or serial < self._reset or (self._pieces and serial < self._pieces[0][0] - 1):
            return None
        return [piece for piece in self._pieces if piece[0] > serial]
