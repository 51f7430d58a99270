"""How soon a command prints its first line at a terminal.

    python -m lab.benchmarks.start --json        # docs/results/at_home.md

Commands are started through bin/swarm-node, with bytecode on disk, as an installation has it. Warm:
their files were read before. Cold: the files are dropped from the system's page cache, as after a
reboot; files that other programs have open in memory stay there.
"""

import os
import pty
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.benchmarks import command

COMMANDS = {
    "run": ("run", "--network.no-enabled", "--home", "{new}"),
    "simulate": ("simulate", "--out", "{new}"),
    "bootstrap": ("bootstrap", "--port", "0", "--mdns", "false", "--home", "{new}"),
}
GOAL = 1.0  # seconds to the first line


def main() -> None:
    parser = command.parser("lab.benchmarks.start", __doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each command, cold and warm")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="start-") as folder:
        start = Start(Path(folder))
        found = {name: start.measured(name, options.runs) for name in COMMANDS}
        command.show(
            ["command", "cold s", "warm s"],
            [[name, *map(_figures, one.values())] for name, one in found.items()],
        )
    command.finish(options, {"seconds": found, "goal": GOAL})


class Start:
    """Starts commands in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._program = command.installed(folder)
        kept = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        self._environment = {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}

    def measured(self, name: str, runs: int) -> Mapping[str, Sequence[float]]:
        """Seconds to the first line, of cold and of warm starts."""
        self._first_line(name)  # writes bytecode
        cold, warm = [], []
        for _ in range(runs):
            self._forget()
            cold.append(self._first_line(name))
            warm.append(self._first_line(name))
        return {"cold": cold, "warm": warm}

    def _first_line(self, name: str) -> float:
        self._count += 1
        new = str(self._folder / f"{name}-{self._count}")
        return self._until(r"\S.*\n", [word.replace("{new}", new) for word in COMMANDS[name]])

    def _until(self, pattern: str, words: Sequence[str]) -> float:
        """Seconds from the start of this command in a terminal until its output matches
        `pattern`.
        """
        ours, theirs = pty.openpty()
        began = time.monotonic()
        line = [str(self._program), *words]
        process = subprocess.Popen(
            line, env=self._environment, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        said = ""
        try:
            while not re.search(pattern, said):
                said += os.read(ours, 4096).decode(errors="replace")
            return time.monotonic() - began
        except OSError as ended:  # no process holds the other end any more
            raise SystemExit(f"{' '.join(words)} ended before {pattern!r}: {said}") from ended
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    def _forget(self) -> None:
        places = {
            sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
        }
        places |= {path for path in sys.path if path.endswith("site-packages")}
        places |= {
            str(command.ROOT / "swarm_node"),
            str(command.ROOT / "protocol"),
            str(self._folder),
        }
        for place in places:
            for path in Path(place).rglob("*"):
                if path.suffix in {".py", ".pyc", ".so", ""} or ".so." in path.name:
                    _take_out_of_memory(path)


def _take_out_of_memory(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _figures(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


if __name__ == "__main__":
    main()
