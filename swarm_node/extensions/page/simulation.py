"""A simulation from what it has written: the rounds of each arm and seed, running or finished."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm_node.extensions.page import checked
from swarm_node.extensions.page.history import History
from swarm_node.extensions.page.node import LEVELS, LINES, MOST_TASKS
from swarm_node.extensions.page.tail import Tail
from swarm_node.extensions.page.watched import News

MOST_CELLS = 256  # arms and seeds that get a curve each
POINTS = 512  # of a curve


class SimulationWatch:
    """Implements watched.Watched. Rewards are those of a completion: a round's sum, divided by its questions."""

    kind = "simulation"
    partial = False

    def __init__(self, folder: Path, questions: int) -> None:
        """`questions`: per node and round."""
        self._tail = Tail(folder / "events.jsonl")
        self._questions = max(1, questions)
        self._news = News()
        self._forget()

    def _forget(self) -> None:
        self._cells: dict[tuple[str, int], dict[str, Any]] = {}
        self._lines: list[dict[str, Any]] = []
        self._started: dict[str, Any] = {}

    def read(self) -> bool:
        before = self._tail.restarts
        records, more = self._tail.read()
        if self._tail.restarts != before:
            self._forget()
            self._news.anew()
        for record in records:
            try:
                self._take(record)
            except (KeyError, ValueError, TypeError):  # TypeError: "event" may be a list
                continue
        return more

    def state(self) -> dict[str, Any]:
        cells = [
            {**cell, "tasks": list(cell["tasks"]), "history": cell["history"].columns()}
            for cell in self._cells.values()
        ]
        return {"serial": self._news.serial, "started": self._started, "cells": cells, "lines": self._lines}

    def news(self, serial: int) -> list[tuple[int, dict[str, Any]]] | None:
        return self._news.after(serial)

    def _take(self, record: Mapping[str, Any]) -> None:
        match record["event"]:
            case "CellRound":
                self._take_round(record)
            case "CellStarted":
                self._begin(record)
            case "CellFinished":
                self._end(record, "finished")
            case "CellFailed":
                (arm, seed), error = checked.cell(record), checked.text(record["error"], checked.LINE)
                self._say({**record, "text": f"{arm} seed {seed} failed: {error}"}, "warning")
                self._end(record, "failed")
            case "RunStarted":
                self._started = checked.started(record)
                self._news.anew()
            case "Notice" | "Warned" | "RunFinished" as event:
                self._say(record, LEVELS[event])

    def _take_round(self, record: Mapping[str, Any]) -> None:
        done = checked.cell_round(record)
        cell = self._cells.get(checked.cell(record)) or self._begin(record)
        if cell is None:
            return
        tasks = checked.known(done["reward_by_task"], cell["tasks"], MOST_TASKS)
        cell["tasks"].update(dict.fromkeys(tasks))
        figures = done["metrics"] | {f"task:{task}": done["reward_by_task"][task] for task in tasks}
        figures |= {"reward": done["reward"] / self._questions, "round_seconds": done["seconds"]}
        figures |= {name: done[name] for name in ("entropy", "informative_share", "external_groups")}
        cell["history"].add(done["round"], figures)
        cell["round"], cell["earned"] = done["round"], cell["earned"] + done["reward"]
        self._news.add({"cell": [cell["arm"], cell["seed"]], "round": [done["round"], figures]})

    def _begin(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """A cell that begins again (after a failure) replaces what there was of it."""
        name = checked.cell(record)
        if name not in self._cells and len(self._cells) >= MOST_CELLS:
            return None
        arm, seed = name
        cell = {"arm": arm, "seed": seed, "state": "running", "round": -1, "earned": 0.0}
        cell |= {"tasks": {}, "history": History(POINTS)}
        self._cells[name] = cell
        self._news.anew()
        return cell

    def _end(self, record: Mapping[str, Any], state: str) -> None:
        cell = self._cells.get(checked.cell(record))
        if cell is not None:
            cell["state"] = state
            self._news.add({"cell": [cell["arm"], cell["seed"]], "state": state})

    def _say(self, record: Mapping[str, Any], level: str) -> None:
        time, text = checked.line(record)
        line = {"time": time, "level": level, "text": text}
        self._lines = [*self._lines[1 - LINES :], line]
        self._news.add({"line": line})
