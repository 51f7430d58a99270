"""Results of the corpus of commands and homes, kept row by row. Part of `lab.fuzzing.folders`.

A row holds what a command did with one file of a home. It is written when it is whole, as a line of
JSON, so a run that was interrupted continues behind the last one. A row with a fault is done again
by the next run, since the fault may be fixed by then; its new line counts.
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.benchmarks.command import ROOT

FAULTS = ("ran", "tracebacks", "raised", "hung")


@dataclass(slots=True)
class Row:
    """What a command did with one file of a home; "" stands for all files at once."""

    command: str
    file: str
    inputs: int = 0
    ran: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    seconds: float = 0.0
    commit: str = ""

    @property
    def faults(self) -> list[str]:
        """Everything that was found, a line each."""
        return [f"{kind}: {text}" for kind in FAULTS for text in getattr(self, kind)]


class Rows:
    """The rows that are done, in a file where there is one."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._rows: dict[tuple[str, str], Row] = {}
        self._commit = _commit()
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                self._take(Row(**json.loads(line)))

    def has(self, command: str, file: str) -> bool:
        """Whether this row is done, and has no fault."""
        row = self._rows.get((command, file))
        return row is not None and not row.faults

    def add(self, row: Row) -> None:
        """Keeps a row, and says what came of it."""
        row.commit = self._commit
        self._take(row)
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row)) + "\n")
        told = f"{row.command}: {row.file or 'all files'}: {row.inputs} inputs, {row.seconds} s"
        print(told, *row.faults, sep="\n    ", file=sys.stderr, flush=True)

    def all(self) -> list[Row]:
        """Every row, the newest of each command and file."""
        return list(self._rows.values())

    def _take(self, row: Row) -> None:
        self._rows[row.command, row.file] = row


@dataclass(frozen=True, slots=True)
class Tally:
    """Rows, counted."""

    rows: list[Row]

    @property
    def figures(self) -> dict[str, int]:
        """The counts, for a report."""
        return {
            "commands": len({row.command for row in self.rows}),
            "files": len({row.file for row in self.rows} - {""}),
            "inputs": sum(row.inputs for row in self.rows),
            "executions": sum(len(row.ran) for row in self.rows),
            "tracebacks": sum(len(row.tracebacks) for row in self.rows),
            "raised": sum(len(row.raised) for row in self.rows),
            "hung": sum(len(row.hung) for row in self.rows),
        }

    @property
    def faults(self) -> list[str]:
        """Everything that was found, a line each."""
        return [fault for row in self.rows for fault in row.faults]

    @property
    def commits(self) -> list[str]:
        """The commits at which the rows were made."""
        return sorted({row.commit for row in self.rows})


def _commit() -> str:
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
