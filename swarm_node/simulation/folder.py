"""The report folder: its files, when it may be used again, finished cells. Deletes only files that
it wrote.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swarm_node.common.errors import UserError, reason_of
from swarm_node.common.files import plain, write_bytes, write_json
from swarm_node.common.parsing import parse_typed, read_json, read_whole
from swarm_node.policy.named import described
from swarm_node.settings.options import flatten
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import Cell, FinishedCell
from swarm_node.telemetry.manifest import manifest

KIND = "simulation"  # in the manifest of a report folder
MAX_REPORT_BYTES = 1 << 29  # of a report, and of each other file of its folder
PICTURES = ("rewards.png", "accuracy.png")
PATTERNS = (
    "report.json",
    "report.csv",
    *PICTURES,
    "manifest.json",
    "events.jsonl",
    "cells/*.json",
    "cells/*.log",
)
# Options that do not change a cell
ABOUT_THE_RUN = {"out", "resume", "overwrite", "workers", "node_processes", "ray", "arms", "seeds"}
SAME_ENGINE = {"ray": "memory"}  # to the bit: what was begun with one goes on with the other


class ReportFolder:
    """The folder of one simulation, and the names of its files."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()
        self.report = self.path / "report.json"
        self.manifest = self.path / "manifest.json"
        self.events = self.path / "events.jsonl"
        self._cells = self.path / "cells"

    def prepare(self, config: SimulationConfig) -> str | None:
        """Makes the folder ready, or raises UserError. Returns a warning if kept cells come from
        other code.
        """
        if config.resume and config.overwrite:
            raise UserError(
                "--resume keeps what is in the report folder, --overwrite removes it: give one of "
                "them"
            )
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file: choose another --out")
        warning = None
        found = list(self.path.iterdir()) if self.path.is_dir() else []
        if config.resume and not self.manifest.exists() and found in ([], [self._cells]):
            raise UserError(
                f"{self.path} holds no simulation to continue: name its folder with --out, or "
                "leave off --resume"
            )
        # An empty `cells` is a start that failed
        if any(path != self._cells or any(path.iterdir()) for path in found):
            earlier = self._earlier_manifest()
            if config.resume:
                warning = self._check_same(earlier, config)
            elif config.overwrite or not (kept := self._worth()):
                for file in (file for pattern in PATTERNS for file in self.path.glob(pattern)):
                    file.unlink()
            else:
                raise UserError(
                    f"{self.path} holds {kept}: continue it with --resume, or replace it with "
                    "--overwrite"
                )
        try:
            self._cells.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{self.path} cannot be written ({reason_of(error)}): choose another --out"
            ) from error
        seeds = range(config.seed, config.seed + config.seeds)
        names = dict.fromkeys(config.node_models or (config.model.name,))
        models = [described(name) for name in names]
        write_json(self.manifest, manifest(KIND, config, seeds, models=models))
        return warning

    def log(self, cell: Cell) -> Path:
        """The file for a worker's stderr. Kept only if the cell failed."""
        return self._cells / f"{cell.file_stem}.log"

    def save(self, record: FinishedCell) -> None:
        """Writes a finished cell, whole or not at all."""
        write_bytes(
            self._file(record.cell), json.dumps(plain(asdict(record)), allow_nan=False).encode()
        )

    def load(self, cells: Sequence[Cell], rounds: int) -> list[FinishedCell]:
        """The records of those cells that are finished. A file that is not a cell of this run
        counts as missing, so the cell runs again.
        """
        found = []
        for cell in cells:
            files = [self._cells / f"{stem}.json" for stem in cell.file_stems]
            file = next((file for file in files if file.exists()), files[0])
            with suppress(OSError, ValueError):
                record = parse_typed(read_whole(file, MAX_REPORT_BYTES), FinishedCell)
                found += [record] if record.cell == cell and len(record.rounds) == rounds else []
        return found

    def _file(self, cell: Cell) -> Path:
        return self._cells / f"{cell.file_stem}.json"

    def _worth(self) -> str:
        """What clearing the folder would lose, in words; "" where an earlier run failed before it
        finished a cell.
        """
        if self.report.exists():
            return "a report"
        done = len(list(self._cells.glob("*.json")))
        return f"{done} finished cells of a simulation that did not end" if done else ""

    def _earlier_manifest(self) -> dict[str, Any]:
        try:
            earlier = read_json(self.manifest, MAX_REPORT_BYTES)
        except (OSError, ValueError):
            earlier = None
        if (
            not isinstance(earlier, dict)
            or earlier.get("kind") != KIND
            or not isinstance(earlier.get("config"), dict)
        ):
            raise UserError(
                f"{self.path} holds files that are not a simulation report: choose another --out"
            )
        return earlier

    def _check_same(self, earlier: Mapping[str, Any], config: SimulationConfig) -> str | None:
        now = flatten(config.model_dump(mode="json"))
        # Options that the earlier version did not have
        new = flatten(type(config)().model_dump(mode="json"))
        then = {**new, **flatten(earlier["config"])}
        for options in (now, then):
            options["engine"] = SAME_ENGINE.get(options["engine"], options["engine"])
        changed = sorted(key for key in now if not _same(now[key], then.get(key)))
        changed = [key for key in changed if key.split(".")[0] not in ABOUT_THE_RUN]
        if changed:
            shown = ", ".join(
                f"{key} was {then.get(key)!r}, is {now.get(key)!r}" for key in changed[:3]
            )
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            raise UserError(
                f"can't --resume {self.path} with another configuration: {shown}{more}; give the "
                "options of the first run, or another --out"
            )
        fresh = manifest(KIND, config, ())
        other = [key for key in ("commit", "versions") if fresh[key] != earlier.get(key)]
        if other:
            return (
                f"finished cells were made with other {' and '.join(other)}: their curves may "
                "not compare"
            )
        return None


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal, or two spellings of one path."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return all(map(_same, one, other))
    if one == other or not isinstance(one, str) or not isinstance(other, str):
        return bool(one == other)
    places = [Path(text).expanduser() for text in (one, other)]
    return all(place.exists() for place in places) and places[0].samefile(places[1])
