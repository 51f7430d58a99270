"""A simulation from what it has written: the rounds of each arm and seed, running or finished."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm_node.commands.page.history import History
from swarm_node.commands.page.node import LEVELS, LINES, MOST_TASKS
from swarm_node.commands.page.tail import Tail
from swarm_node.commands.page.watched import News

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
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
        return more

    def state(self) -> dict[str, Any]:
        cells = [{**cell, "history": cell["history"].columns()} for cell in self._cells.values()]
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
                self._end(record, "failed")
                self._say(record, "warning", f"{record['arm']} seed {record['seed']} failed: {record['error']}")
            case "RunStarted":
                self._started = {"title": record["title"], "facts": record["facts"], "time": record["time"]}
                self._news.anew()
            case "Notice" | "Warned" | "RunFinished" as event:
                self._say(record, LEVELS[event], str(record["text"]))

    def _take_round(self, record: Mapping[str, Any]) -> None:
        cell = self._cells.get(_name(record)) or self._begin(record)
        if cell is None:
            return
        tasks = dict(list(record["reward_by_task"].items())[:MOST_TASKS])
        figures = {str(name): float(value) for name, value in record.get("metrics", {}).items()}
        figures |= {f"task:{task}": float(reward) for task, reward in tasks.items()}
        figures |= {"reward": float(record["reward"]) / self._questions, "entropy": float(record["entropy"])}
        figures["informative_share"] = float(record["informative_share"])
        figures["external_groups"] = float(record["external_groups"])
        figures["round_seconds"] = float(record["seconds"].get("round", 0.0))
        number = int(record["round"])
        cell["history"].add(number, figures)
        cell["round"], cell["earned"] = number, cell["earned"] + float(record["reward"])
        self._news.add({"cell": [cell["arm"], cell["seed"]], "round": [number, figures]})

    def _begin(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """A cell that begins again (after a failure) replaces what there was of it."""
        name = _name(record)
        if name not in self._cells and len(self._cells) >= MOST_CELLS:
            return None
        arm, seed = name
        cell = {"arm": arm, "seed": seed, "state": "running", "round": -1, "earned": 0.0, "history": History(POINTS)}
        self._cells[name] = cell
        self._news.anew()
        return cell

    def _end(self, record: Mapping[str, Any], state: str) -> None:
        cell = self._cells.get(_name(record))
        if cell is not None:
            cell["state"] = state
            self._news.add({"cell": [cell["arm"], cell["seed"]], "state": state})

    def _say(self, record: Mapping[str, Any], level: str, text: str) -> None:
        line = {"time": float(record["time"]), "level": level, "text": text}
        self._lines = [*self._lines[1 - LINES :], line]
        self._news.add({"line": line})


def _name(record: Mapping[str, Any]) -> tuple[str, int]:
    return str(record["arm"]), int(record["seed"])
