"""What a page shows of: a run by the events that it has written, for those who send it to browsers."""

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm_node.extensions.page.tail import Tail
from swarm_node.telemetry import checked

KEPT = 128  # pieces of news; whoever is further behind begins anew
LINES = 200  # notices and warnings that are kept
MOST_TASKS = 40  # that get a curve each
LEVELS = {"Notice": "notice", "Warned": "warning", "RunFinished": "notice"}


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


class Watched:
    """A run as the page sees it. Only `read` touches files, a portion at a time."""

    kind = ""  # "node" or "simulation": what the browser draws

    def __init__(self, folder: Path) -> None:
        older = folder / "events.1.jsonl"
        self._tail = Tail(folder / "events.jsonl", older)
        self._before: Tail | None = Tail(older)  # read once, at the start
        self.news = News()
        self.forget()

    def forget(self) -> None:
        """The file is another one: nothing has been read of it."""
        self._lines: deque[dict[str, Any]] = deque(maxlen=LINES)

    def read(self) -> bool:
        """Take in a portion of what was written since; whether there may be more at once."""
        before = self._tail.restarts
        records, more = (self._before or self._tail).read()
        if self._before and not more:
            self._before, more = None, True
        if self._tail.restarts != before:
            self.forget()
            self.news.anew()
        for record in records:
            try:
                self.take(record)
            except (KeyError, ValueError, TypeError):  # TypeError: "event" may be a list
                continue
        return more

    def take(self, record: Mapping[str, Any]) -> None:
        """One event. It raises for what is none, before it changes anything."""
        if record["event"] in LEVELS:
            self.say(record, LEVELS[record["event"]])

    def say(self, record: Mapping[str, Any], level: str) -> None:
        """A line for people."""
        time, text = checked.line(record)
        line = {"time": time, "level": level, "text": text}
        self._lines.append(line)
        self.news.add({"line": line})

    def state(self) -> dict[str, Any]:
        """All that a browser needs to begin with, as plain data; `serial` says where the news go on."""
        return {"kind": self.kind, "serial": self.news.serial, "lines": list(self._lines)}
