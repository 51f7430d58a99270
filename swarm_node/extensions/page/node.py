"""A node from what it has written: events.jsonl in its home, whether it runs or not."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from swarm_node.common.lru import Lru
from swarm_node.extensions.page.history import History, Recent
from swarm_node.extensions.page.tail import Tail
from swarm_node.extensions.page.watched import News
from swarm_node.rollouts.reports import METRICS, PHASES
from swarm_node.telemetry import checked

LINES = 200  # notices and warnings that are kept
AUTHORS = 512  # that are remembered
MOST_TASKS = 40  # that get a curve each
LEVELS = {"Notice": "notice", "Warned": "warning", "RunFinished": "notice"}
MOST_REASONS = 256  # of all rounds
MOST_NEW = 128  # authors of one round that are counted
OUTCOMES = ("scored", "informative", "refused", "trained")  # of groups, keys of `RoundReport.external_by_peer`
COUNTED = tuple(name for name, metric in METRICS.items() if metric.over == "sum")


class NodeWatch:
    """Implements watched.Watched, and counts for /metrics."""

    kind = "node"
    partial = False

    def __init__(self, home: Path, end: int = 0) -> None:
        """`end`: so many bytes at the end of the events are read, and what comes; 0 for all."""
        older = home / "events.1.jsonl"
        self._tail = Tail(home / "events.jsonl", older, end)
        self._before: Tail | None = None if end else Tail(older)  # read once, at the start
        self._news = News()
        self._forget()

    def _forget(self) -> None:
        self._history, self._recent = History(), Recent()
        self._lines: deque[dict[str, Any]] = deque(maxlen=LINES)
        self._validations = History()
        self._learned: dict[str, Any] = {}  # by the newest validation
        self._tasks: dict[str, None] = {}
        self._started: dict[str, Any] = {}
        self.totals: Counter[str] = Counter()  # what only grows, over all events of the file
        self.seconds: Counter[str] = Counter()  # by phase
        self.skipped: Counter[str] = Counter()  # by reason
        self._authors: Lru[str, Counter[str]] = Lru(AUTHORS)  # what came of external groups, by author
        self.last: dict[str, Any] = {}  # the newest report
        self.validated: float | None = None  # the newest reward in validation

    def read(self) -> bool:
        before = self._tail.restarts
        records, more = (self._before or self._tail).read()
        if self._before and not more:
            self._before, more = None, True
        if self._tail.restarts != before:
            self._forget()
            self._news.anew()
        for record in records:
            try:
                self._take(record)
            except (KeyError, ValueError, TypeError):  # TypeError: "event" may be a list
                self.totals["unreadable"] += 1
        return more

    def state(self) -> dict[str, Any]:
        return {
            "serial": self._news.serial,
            "started": self._started,
            "whole": self._history.columns(),
            "recent": self._recent.columns(),
            "validations": self._validations.columns(),
            "learned": self._learned,
            "tasks": list(self._tasks),
            "phases": list(PHASES),
            "lines": list(self._lines),
            "last": self.last,
            "totals": dict(self.totals),
            "authors": {author: dict(counts) for author, counts in self._authors.items()},
        }

    def news(self, serial: int) -> list[tuple[int, dict[str, Any]]] | None:
        return self._news.after(serial)

    def anew(self, serial: int) -> None:
        """Browsers that had news from elsewhere, up to `serial`, begin anew."""
        self._news.anew(serial)

    def _take(self, record: Mapping[str, Any]) -> None:
        match record["event"]:
            case "RoundDone":
                self._take_round(checked.report(record["report"]))
            case "Validated":
                (number, reward), learned = checked.validated(record), checked.learned(record)
                self._validations.add(number, {"reward": reward})
                self.validated = reward
                self.totals["validations"] += 1
                self._learned = learned
                self._news.add({"validated": [number, reward], "learned": learned})
            case "CheckpointSaved":
                number = checked.whole(record["round"])
                self.totals["checkpoints"] += 1
                self._news.add({"checkpoint": number})
            case "RunStarted":
                self._started = checked.started(record)
                self.totals["starts"] += 1
                self._news.add({"started": self._started})
            case "Notice" | "Warned" | "RunFinished" as event:
                time, text = checked.line(record)
                line = {"time": time, "level": LEVELS[event], "text": text}
                self._lines.append(line)
                self.totals["warnings"] += event == "Warned"
                self._news.add({"line": line})

    def _take_round(self, report: Mapping[str, Any]) -> None:
        """`report`: as `checked.report` gives it, so that nothing below fails half-way."""
        number, figures = report["round"], dict(figures_of(report))
        tasks = checked.known(report["reward_by_task"], self._tasks, MOST_TASKS)
        self._tasks.update(dict.fromkeys(tasks))
        figures.update({f"task:{task}": report["reward_by_task"][task] for task in tasks})
        self._history.add(number, figures)
        self._recent.add(number, figures)
        self.last = dict(report)
        self.totals["rounds"] += 1
        for name in COUNTED:
            self.totals[name] += int(figures.get(name, 0))
        self.totals["external_informative"] += int(figures.get("external_informative", 0))
        self.seconds.update({phase: figures[f"phase:{phase}"] for phase in PHASES if f"phase:{phase}" in figures})
        skipped = report["skipped"]
        self.skipped.update({reason: skipped[reason] for reason in checked.known(skipped, self.skipped, MOST_REASONS)})
        came = {author: report["external_by_peer"][author] for author in list(report["external_by_peer"])[:MOST_NEW]}
        for author, counts in came.items():
            known = self._authors.get(author) or Counter()
            known.update({what: counts[what] for what in OUTCOMES if what in counts})
            self._authors[author] = known
        authors = {author: dict(self._authors.get(author) or ()) for author in came}
        piece = {"round": [number, figures], "last": self.last, "tasks": list(self._tasks), "authors": authors}
        self._news.add(piece | {"totals": dict(self.totals)})


def figures_of(report: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Of one round: every metric, seconds by phase, and what follows from both. Without those that it lacks. `report`:
    as `checked.report` gives it."""
    for name in METRICS:
        if name == "external_reward" and not report.get("external_considered"):
            continue  # there were none
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
