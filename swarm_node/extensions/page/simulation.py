"""A simulation from what it has written: the rounds of each arm and seed, running or finished."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm_node.extensions.page.history import History
from swarm_node.extensions.page.watched import MOST_TASKS, Watched
from swarm_node.telemetry import checked

MOST_CELLS = 256  # arms and seeds that get a curve each
POINTS = 512  # of a curve


class SimulationWatch(Watched):
    """A simulation. Rewards are those of a completion: a round's sum, divided by its questions."""

    kind = "simulation"

    def __init__(self, folder: Path, questions: int) -> None:
        """`questions`: per node and round."""
        super().__init__(folder)
        self._questions = max(1, questions)

    def forget(self) -> None:
        super().forget()
        self._cells: dict[tuple[str, int], dict[str, Any]] = {}

    def state(self) -> dict[str, Any]:
        cells = [
            {**cell, "tasks": list(cell["tasks"]), "history": cell["history"].columns()}
            for cell in self._cells.values()
        ]
        return super().state() | {"cells": cells}

    def take(self, record: Mapping[str, Any]) -> None:
        match record["event"]:
            case "CellRound":
                self._take_round(record)
            case "CellStarted":
                self._begin(record)
            case "CellFinished":
                self._end(record, "finished")
            case "CellFailed":
                (arm, seed), error = checked.cell(record), checked.text(record["error"], checked.LINE)
                self.say({**record, "text": f"{arm} seed {seed} failed: {error}"}, "warning")
                self._end(record, "failed")
            case _:
                super().take(record)

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
        cell["round"] = done["round"]
        self.news.add({"cell": [cell["arm"], cell["seed"]], "round": [done["round"], figures]})

    def _begin(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """A cell that begins again (after a failure) replaces what there was of it."""
        name = checked.cell(record)
        if name not in self._cells and len(self._cells) >= MOST_CELLS:
            return None
        arm, seed = name
        cell = {"arm": arm, "seed": seed, "state": "running", "round": -1, "tasks": {}, "history": History(POINTS)}
        self._cells[name] = cell
        self.news.anew()
        return cell

    def _end(self, record: Mapping[str, Any], state: str) -> None:
        cell = self._cells.get(checked.cell(record))
        if cell is not None:
            cell["state"] = state
            self.news.add({"cell": [cell["arm"], cell["seed"]], "state": state})
