"""Compares the present code with a release: runs the same commands with both, and compares reports key by key.

    python -m lab.benchmarks.compatibility

The release is taken out of git into a temporary folder. Every key of its report.json, and of each round in its
events.jsonl, must be in the present one with the same value, bit for bit. Times and `cost` differ between any two runs;
of these only the names in `cost` must be there. Both sides run at the same time on the same machine. So their ratio,
wall time of the present over the release, is meaningful.
"""

import argparse
import compileall
import io
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from lab.benchmarks import command

ROOT = Path(__file__).resolve().parents[2]
RELEASES = {"v0.1.0": "0dff80071022218990fe56781b7198a707fdbd34"}  # used if the tag was not fetched
PACKAGES = ("site-packages", "dist-packages")
SECONDS = 900.0  # a run may take
CLOCKS = ("time", "seconds")  # in events: no two runs share them

COMMON = ("--threads", "1", "--workers", "1")
LITTLE = ("--round.questions", "4", "--generation.num-generations", "6")
TWO_ARMS = ("--arms", "4/0", "2/2")
DEFENDED = ("--defence.use", "length", "duplicates", "ngrams", "rescue")
RUNS: dict[str, tuple[str, ...]] = {
    "synchronous": ("simulate", "--nodes", "3", "--rounds", "4", "--arms", "8/0", "4/4"),
    "attack": ("attack", "--nodes", "4", "--rounds", "3", *LITTLE, *TWO_ARMS),
    "asynchronous": (
        *("simulate", "--nodes", "3", "--rounds", "4", *LITTLE, *TWO_ARMS),
        *("--asynchronous.enabled", "--asynchronous.max-staleness", "1", "--training.objective", "decoupled"),
    ),
    "all layers": (
        *("attack", "--nodes", "4", "--rounds", "3", *LITTLE, *TWO_ARMS, *DEFENDED),
        *("--environment.scoring", "graded"),
    ),
    "puzzles": (
        *("simulate", "--nodes", "2", "--rounds", "3", "--model.name", "puzzler", *LITTLE, *TWO_ARMS),
        *("--environment.tasks", "temporal_clue/tiny", "--environment.scoring", "graded"),
    ),
    "faults": (
        *("simulate", "--nodes", "4", "--rounds", "6", *LITTLE, *TWO_ARMS, "--round.external-sampler", "matched"),
        *("--environment.tasks", "gcd/easy", "lcm/easy", "count_bits/easy", "--node-models", "rare", "rare_small"),
        *("--faults.loss", "0.2", "--faults.delay", "1", "--faults.die", "3@4", "--faults.slow", "2@2"),
    ),
    "penalty": (
        *("simulate", "--nodes", "2", "--rounds", "3", *LITTLE, *TWO_ARMS, "--training.beta", "0.04"),
        *("--training.num-iterations", "2", "--training.minibatches", "2", "--training.loss-type", "dapo"),
    ),
}
QUICK = ("attack", "asynchronous", "puzzles")
SHORT = ("--arms", "2/2", "--rounds", "2")  # for a quick run


class NoHistory(Exception):
    """Git does not have the release."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two reports. Names are those of nested keys, joined by dots."""

    same: tuple[str, ...]
    different: tuple[str, ...]
    missing: tuple[str, ...]  # in the present one
    added: tuple[str, ...]

    @property
    def differences(self) -> list[str]:
        return [f"{key} differs" for key in self.different] + [f"{key} is missing" for key in self.missing]


def compare(release: Mapping[str, Any], present: Mapping[str, Any]) -> Comparison:
    """Two reports key by key."""
    then, now = dict(leaves(release)), dict(leaves(present))
    both = [key for key in then if key in now]
    alike = {key for key in both if key.startswith("cost.") or exact(then[key]) == exact(now[key])}
    return Comparison(
        same=tuple(key for key in both if key in alike),
        different=tuple(key for key in both if key not in alike),
        missing=tuple(key for key in then if key not in now),
        added=tuple(key for key in now if key not in then),
    )


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """All values that are not mappings, by name. An empty mapping is a value."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{key}.{name}" if key else name)
    else:
        yield key, value


def exact(value: Any) -> str:
    """Whether two values have the same bits: 1 is not 1.0, and NaN equals NaN."""
    return json.dumps(value, sort_keys=True)


def take_out(release: str, folder: Path, root: Path = ROOT) -> None:
    """The tree of a release, from git. NoHistory, one line, if git does not have it."""
    for name in (release, RELEASES.get(release, release)):
        found = subprocess.run(["git", "-C", root, "archive", f"{name}^{{tree}}"], capture_output=True, check=False)
        if found.returncode == 0:
            break
    else:
        raise NoHistory(f"git has no {release}: fetch it by `git fetch --tags --unshallow`, or `git fetch --tags`")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")


def environment(code: Path, folder: Path) -> Path:
    """An interpreter that finds the code in `code`, and all else where this one finds it. All its children do, too:
    nothing depends on PYTHONPATH or the folder they run in."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    places = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=places))
    lines = [str(code), *(place for place in sys.path if Path(place).name in PACKAGES)]
    (packages / "code.pth").write_text("\n".join(lines) + "\n")
    return folder / "bin" / "python"


def sides(release: str, folder: Path) -> dict[str, list[str]]:
    """The command line of each side, whose interpreter is checked to run the code of that side."""
    (released := folder / "code").mkdir()
    take_out(release, released)
    for package in ("protocol", "swarm_node"):  # the present ones are compiled already
        compileall.compile_dir(released / package, quiet=1)
    made = {}
    for name, code in {"release": released, "present": ROOT}.items():
        python = str(environment(code, folder / name))
        made[name] = [python, "-m", "swarm_node" if (code / "swarm_node/__main__.py").exists() else "swarm_node.cli"]
        asked = [python, "-s", "-P", "-c", "import swarm_node; print(swarm_node.__file__)"]
        found = subprocess.check_output(asked, text=True, cwd="/", env=clean())
        assert Path(found.strip()).is_relative_to(code), f"{name} runs {found.strip()}"
    return made


def clean() -> dict[str, str]:
    """The environment of this process without variables that would change paths of an interpreter or a node."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SWARM_NODE_"))}
    return {**kept, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def run(
    name: str, commands: Mapping[str, Sequence[str]], folder: Path, *more: str
) -> tuple[dict[str, Any], dict[str, float]]:
    """Reports and wall seconds of both sides, which run at the same time."""

    def one(side: str) -> tuple[dict[str, Any], float]:
        out = folder / "runs" / name.replace(" ", "-") / side
        out.mkdir(parents=True)
        words = [*commands[side], *without(RUNS[name], more), *COMMON, *more, "--out", str(out / "report")]
        began = monotonic()
        done = subprocess.run(words, cwd=out, env=clean(), capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise SystemExit(f"{name}, {side}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return said(out / "report"), monotonic() - began

    with ThreadPoolExecutor(len(commands)) as pool:
        both = dict(zip(commands, pool.map(one, commands), strict=True))
    return {side: report for side, (report, _) in both.items()}, {side: took for side, (_, took) in both.items()}


def without(words: Sequence[str], replaced: Sequence[str]) -> list[str]:
    """The words without the options in `replaced`, and without their values: an option may be given once."""
    kept, dropping = [], False
    for word in words:
        if word.startswith("--"):
            dropping = word in replaced
        if not dropping:
            kept.append(word)
    return kept


def said(folder: Path) -> dict[str, Any]:
    """report.json, and what events.jsonl has of every round: gradients show differences that a few rounds of rewards
    may not."""
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    events = [json.loads(each) for each in (folder / "events.jsonl").read_text().splitlines()]
    rounds = {
        f"{event['arm']} {event['seed']} {event['round']}": {
            name: value for name, value in event.items() if name not in CLOCKS
        }
        for event in events
        if event["event"] == "CellRound"
    }
    return {**report, "events": rounds}


def line(name: str, found: Comparison, seconds: Mapping[str, float]) -> list[str]:
    counts = [len(found.same), len(found.different), len(found.missing), len(found.added)]
    return [name, *map(str, counts), f"{seconds['release']:.1f}", f"{seconds['present']:.1f}"]


def measure(release: str, quick: bool) -> tuple[dict[str, Comparison], dict[str, dict[str, float]]]:
    """For each run the comparison, and the seconds of both sides."""
    found, seconds = {}, {}
    with tempfile.TemporaryDirectory(prefix="compatibility-") as temporary:
        commands = sides(release, Path(temporary))
        for name in QUICK if quick else RUNS:
            reports, seconds[name] = run(name, commands, Path(temporary), *(SHORT if quick else ()))
            found[name] = compare(reports["release"], reports["present"])
            verdict = f"{len(found[name].differences)} differences" if found[name].differences else "the same"
            print(f"{name}: {verdict}", flush=True)
    return found, seconds


def parsed() -> argparse.Namespace:
    parser = command.parser("lab.benchmarks.compatibility", __doc__)
    command.add_quick(parser)
    parser.add_argument("--release", default="v0.1.0", help="tag or commit to compare with (v0.1.0)")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    try:
        found, seconds = measure(arguments.release, arguments.quick)
    except NoHistory as error:
        sys.exit(str(error))
    header = ["keys", "same", "different", "missing", "added", "s, release", "s, present"]
    command.show(header, [line(name, found[name], seconds[name]) for name in found])
    differences = [f"{name}: {words}" for name, result in found.items() for words in result.differences]
    for words in differences:
        print(words)
    result = {
        "ratio": median(both["present"] / both["release"] for both in seconds.values()),
        "differences": differences,
        "release": arguments.release,
        "runs": {
            name: {"same": len(result.same), "added": len(result.added), "seconds": seconds[name]}
            for name, result in found.items()
        },
        "settings": {"cores": os.cpu_count(), **command.versions("torch", "transformers", "reasoning-gym")},
    }
    command.finish(arguments, result)
    if differences:
        sys.exit(1)


if __name__ == "__main__":
    main()
