"""Follows a node by what it writes, whether it runs or not: events and samples in its home; and
keeps the news for browsers that follow the run. It reads in portions what was added to these files
since the last read.
"""

import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from swarm_node.common.files import open_to_read
from swarm_node.common.lru import Lru
from swarm_node.page import checked
from swarm_node.page.history import RECENT, History
from swarm_node.rollouts.groups import METRICS, PHASES
from swarm_node.telemetry.jsonlines import LONGEST, record_of
from swarm_node.telemetry.samples import FILE, OLDER

KEPT = 128  # pieces of news; a browser that is further behind begins anew
SHOWN = 48  # samples
LINES = 200  # notices and warnings that are kept
AUTHORS = 512  # that are remembered
MOST_TASKS = 40  # that get a curve each
MOST_REASONS = 256  # why groups were skipped, over all rounds
MOST_NEW = 128  # authors of one round that are counted
LEVELS = {"Notice": "notice", "Warned": "warning", "RunFinished": "notice"}
# Of groups, keys of `RoundReport.external_by_peer`
OUTCOMES = ("scored", "informative", "refused", "trained")
SUMMED = tuple(name for name, metric in METRICS.items() if metric.over == "sum")
PORTION = 256 * 1024  # bytes read at a time: a hundredth of a second, in which no viewer is served


class Tail:
    """Follows one file by its path. A line counts when it is whole; one that is broken is
    skipped.
    """

    def __init__(self, path: Path, older: Path) -> None:
        """`older`: where the writer puts the file when it is large, before a new one begins. An
        older file is read first, once. When the open file is put there, reading goes on in the new
        one.
        """
        self._path, self._older = path, older
        self._first: Path | None = older
        self._file: BinaryIO | None = None
        self._rest = b""  # of a line that is not whole yet
        self._skipping = False  # whether the line is too long: the rest of it is skipped
        # How often the file was replaced or shortened, and is read from its start again
        self.restarts = 0

    def read(self) -> tuple[list[dict[str, Any]], bool]:
        """The next records, and whether more may be there already. A missing file, or something
        else in its place, counts as empty.
        """
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
        """Whether the open file is the one at `path`."""
        try:
            return (
                self._file is not None
                and path.stat().st_ino == os.fstat(self._file.fileno()).st_ino
            )
        except OSError:
            return False

    def _replaced(self) -> bool:
        """Whether another file lies in the place of the open one, or the open one was shortened."""
        if self._file is None or self._is(self._older):
            return False
        return not self._is(self._path) or os.fstat(self._file.fileno()).st_size < self._file.tell()


class News:
    """The last pieces of news, by a serial number that only grows."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, dict[str, Any]]] = deque(maxlen=KEPT)
        self._reset = 0  # the serial of the last time that everything changed
        self.serial = 0

    def add(self, piece: dict[str, Any]) -> None:
        """Adds a piece, and gives it the next serial."""
        self.serial += 1
        self._pieces.append((self.serial, piece))

    def anew(self) -> None:
        """Drops all pieces, as everything changed: browsers have to begin anew."""
        self.serial += 1
        self._reset = self.serial
        self._pieces.clear()

    def after(self, serial: int) -> list[tuple[int, dict[str, Any]]] | None:
        """What came after `serial`, each piece with its own serial; None where the browser has to
        begin anew.
        """
        if (
            serial > self.serial
            or serial < self._reset
            or (self._pieces and serial < self._pieces[0][0] - 1)
        ):
            return None
        return [piece for piece in self._pieces if piece[0] > serial]


class NodeWatch:
    """Follows the events, and counts for /metrics. Only `read` touches files, a portion at a
    time.
    """

    def __init__(self, home: Path) -> None:
        self._tail = Tail(home / "events.jsonl", home / "events.1.jsonl")
        self.news = News()
        self._forget()

    def _forget(self) -> None:
        self._history, self._recent, self._validations = (
            History(),
            History(RECENT, widens=False),
            History(),
        )
        self._lines: deque[dict[str, Any]] = deque(maxlen=LINES)
        self._learned: dict[str, Any] = {}  # from the newest validation
        self._chosen: dict[str, Any] = {}  # which tasks are practised, if the node chooses them
        self._facts: dict[str, str] = {}  # of the newest start: model, device, ...
        self._tasks: dict[str, None] = {}
        self.totals: Counter[str] = Counter()  # counts that only grow, over all events of the file
        self.seconds: Counter[str] = Counter()  # by phase
        self.skipped: Counter[str] = Counter()  # by reason
        # Outcomes of external groups, by author
        self._authors: Lru[str, Counter[str]] = Lru(AUTHORS)
        self.last: dict[str, Any] = {}  # the newest report
        self._began: float | None = None  # when its first round ended, seconds
        self.validated: float | None = None  # the newest reward in validation

    def read(self) -> bool:
        """Takes in the next portion of the events. Returns whether more may be there already."""
        before = self._tail.restarts
        records, more = self._tail.read()
        if self._tail.restarts != before:
            self._forget()
            self.news.anew()
        for record in records:
            try:
                self.take(record)
            except (KeyError, ValueError, TypeError):  # TypeError: "event" may be a list
                continue
        return more

    def state(self) -> dict[str, Any]:
        """All that a browser needs to begin with, as plain data; `serial` says where the news go
        on.
        """
        return {
            "serial": self.news.serial,
            "whole": self._history.columns(),
            "recent": self._recent.columns(),
            "validations": self._validations.columns(),
            "learned": self._learned,
            "chosen": self._chosen,
            "facts": self._facts,
            "tasks": list(self._tasks),
            "phases": list(PHASES),
            "lines": list(self._lines),
            "last": self.last,
            "authors": {author: dict(counts) for author, counts in self._authors.items()},
        }

    def take(self, record: Mapping[str, Any]) -> None:
        """Takes one event in. A wrong one raises KeyError, ValueError or TypeError before anything
        is changed.
        """
        match record["event"]:
            case "RoundDone":
                self._take_round(checked.report(record["report"]), checked.number(record["time"]))
            case "Validated":
                (number, reward), learned = checked.validated(record), checked.learned(record)
                self._validations.add(number, {"reward": reward})
                self.validated = reward
                self.totals["validations"] += 1
                self._learned = learned
                self.news.add({"validated": [number, reward], "learned": learned})
            case "Chosen":
                self._chosen = checked.chosen(record)
                self.news.add({"chosen": self._chosen})
            case "CheckpointSaved":
                checked.whole(record["round"])
                self.totals["checkpoints"] += 1
            case "RunStarted":
                self._facts = checked.table(record.get("facts", {}), checked.text, checked.REASONS)
                self.totals["starts"] += 1
                self.news.add({"facts": self._facts})
            case "Notice" | "Warned" | "RunFinished" as event:
                time, text = checked.line(record)
                line = {"time": time, "level": LEVELS[event], "text": text}
                self._lines.append(line)
                self.totals["warnings"] += event == "Warned"
                self.news.add({"line": line})

    def _take_round(self, report: Mapping[str, Any], time: float) -> None:
        """`report`: as `checked.report` gives it, so that nothing below fails half-way."""
        number, figures = report["round"], dict(figures_of(report))
        self._began = time if self._began is None else self._began
        figures["hours"] = (time - self._began) / 3600
        tasks = checked.known(report["reward_by_task"], self._tasks, MOST_TASKS)
        self._tasks.update(dict.fromkeys(tasks))
        figures.update({f"task:{task}": report["reward_by_task"][task] for task in tasks})
        self._history.add(number, figures)
        self._recent.add(number, figures)
        self.last = dict(report)
        self.totals["rounds"] += 1
        for name in SUMMED:
            self.totals[name] += int(figures.get(name, 0))
        self.totals["external_groups"] += int(figures.get("external_informative", 0))
        self.seconds.update(
            {phase: figures[f"phase:{phase}"] for phase in PHASES if f"phase:{phase}" in figures}
        )
        skipped = report["skipped"]
        self.skipped.update(
            {
                reason: skipped[reason]
                for reason in checked.known(skipped, self.skipped, MOST_REASONS)
            }
        )
        came = {
            author: report["external_by_peer"][author]
            for author in list(report["external_by_peer"])[:MOST_NEW]
        }
        for author, counts in came.items():
            known = self._authors.get(author) or Counter()
            known.update({what: counts[what] for what in OUTCOMES if what in counts})
            self._authors[author] = known
        authors = {author: dict(self._authors.get(author) or ()) for author in came}
        piece = {
            "round": [number, figures],
            "last": self.last,
            "tasks": list(self._tasks),
            "authors": authors,
        }
        self.news.add(piece)


def figures_of(report: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The figures of one round by name: the metrics that it has, seconds by phase, and what follows
    from both. `report`: as `checked.report` gives it.
    """
    for name in METRICS:
        value = report.get(name, report["step"].get(name))
        if value is not None:
            yield name, float(value)
    yield from ((f"phase:{phase}", spent) for phase, spent in report["seconds"].items())
    overlap = report["overlap"]
    spent = overlap["wall"] if overlap else sum(report["seconds"].values())
    yield "round_seconds", spent
    yield "tokens_per_second", float(report.get("generated_tokens", 0)) / max(spent, 1e-9)
    if overlap:
        yield from ((name, overlap[name]) for name in ("generating", "training", "waiting"))


class SamplesWatch:
    """Keeps the last samples of rollouts in memory: it follows the ring of files that the node
    writes.
    """

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
        """The samples, the newest first."""
        return list(reversed(self._last))
