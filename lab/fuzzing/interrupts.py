"""Ctrl-C while a command starts: at any moment of its first two seconds, and a second one soon
after.

    python -m lab.fuzzing.interrupts --json        # docs/results/at_home.md

Each case is a process as a terminal starts it: by the script of an installation, in a process group
of its own, which gets the signal as a whole. A traceback, or an exit code that
docs/reference/exit_codes.md does not have, is a mistake, unless Python itself was still starting:
before `main` of commands/cli.py begins, a KeyboardInterrupt is Python's to show.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.benchmarks import command

COMMANDS = {
    "run": ("run", "--model.name", "rare", "--network.no-enabled", "--threads", "1", "--home"),
    "simulate": ("simulate", "--workers", "1", "--threads", "1", "--out"),
    "bootstrap": ("bootstrap", "--port", "0", "--mdns", "false", "--home"),
}
SECONDS = 2.0
SECOND_AFTER = 0.3  # seconds until the second Ctrl-C, if the first has not ended the command
# The last: the signal ended Python before it handles any
ALLOWED = {0, 130, -signal.SIGINT}
FRAME = re.compile(r'^ *File "(.*)", line \d+, in (.*)$', re.MULTILINE)
SIDE_BY_SIDE = 2


@dataclass(frozen=True, slots=True)
class Case:
    """How a command ended."""

    name: str
    moment: float  # seconds after its start
    code: int
    took: float  # seconds from the first Ctrl-C to its end
    wrong: str  # what it printed, or its code, if that should not be; else ""


def main() -> None:
    parser = command.parser("lab.fuzzing.interrupts", __doc__)
    parser.add_argument("--every", type=int, default=50, help="milliseconds between moments")
    options = parser.parse_args()
    moments = [
        milliseconds / 1000 for milliseconds in range(0, int(SECONDS * 1000) + 1, options.every)
    ]
    found = list(interrupted({name: moments for name in COMMANDS}))
    wrong = [case for case in found if case.wrong]
    for name in COMMANDS:
        slowest = max(case.took for case in found if case.name == name)
        print(f"{name:10} {len(moments)} moments, left within {slowest:.1f} s")
    for case in wrong:
        print(f"{case.name:10} after {case.moment:.2f} s: code {case.code}, {case.wrong}")
    print(f"{len(found)} cases, {len(wrong)} not as they should be")
    command.finish(options, {"cases": [asdict(case) for case in found], "wrong": len(wrong)})
    sys.exit(bool(wrong))


def interrupted(moments: dict[str, Sequence[float]]) -> Iterator[Case]:
    """Interrupts each command at each of its moments, SIDE_BY_SIDE cases at a time."""
    with tempfile.TemporaryDirectory(prefix="interrupts-") as folder:
        program = command.installed(Path(folder))
        asked = [(name, moment) for name, several in moments.items() for moment in several]
        with ThreadPoolExecutor(SIDE_BY_SIDE) as several:
            yield from several.map(lambda one: _interrupt(program, Path(folder), *one), asked)


def _interrupt(program: Path, folder: Path, name: str, moment: float) -> Case:
    place = folder / f"{name}-{moment}"
    line = [str(program), *COMMANDS[name], str(place)]
    process = subprocess.Popen(
        line,
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    time.sleep(moment)
    began = time.monotonic()
    _signal(process)
    try:
        output, _ = process.communicate(timeout=SECOND_AFTER)
    except subprocess.TimeoutExpired:
        _signal(process)
        output, _ = process.communicate(timeout=300.0)
    took = time.monotonic() - began
    told = "Traceback" in output or "Error" in output or "rror:" in output
    early = told and before_main(output)
    wrong = output[-300:] if told and not early else ""
    if not wrong and not early and process.returncode not in ALLOWED:
        wrong = f"ended with {process.returncode}"
    return Case(name, moment, process.returncode, round(took, 2), wrong)


def before_main(output: str) -> bool:
    """Whether a traceback is that of a Ctrl-C before our code could handle one: of our functions
    none had begun.
    """
    if not output.rstrip().endswith("KeyboardInterrupt"):
        return False
    ours = [name for file, name in FRAME.findall(output) if "swarm_node" in Path(file).parts]
    return all(name == "<module>" for name in ours)


def _signal(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)


if __name__ == "__main__":
    main()
