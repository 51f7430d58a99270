"""Restores backups with something changed in them: each is refused in one line and writes nothing,
or comes out whole.

    python -m lab.fuzzing.backups --inputs 20000 --json

Bytes are changed as in `lab.fuzzing.fuzz`, and so are entries of the list of files. Half of the
backups get right sizes and hashes afterwards, since otherwise only the checks of these would be
tested.
"""

import hashlib
import json
import re
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from lab.benchmarks import command
from lab.fuzzing.mutation import mutate
from swarm_node.common.errors import UserError
from swarm_node.home.backup import backup, restore

KEPT = 32  # backups that are changed further
FILES = {
    "identity.key": b"k" * 68,
    "peers.json": b"{}",
    "exchange.json": b'{"seen": []}',
    "manifest.json": b'{"environment": {}}',
    "checkpoints/00000040/state.json": b'{"rounds": 40}',
    "checkpoints/00000040/model.safetensors": b"m" * 1500,
    "best/00000020/state.json": b'{"rounds": 20}',
}
NAMES = (
    "",
    "/etc/passwd",
    "../x",
    "identity.key",
    "identity.key/x",
    "checkpoints/1/x",
    "checkpoints//1/x",
    "best/1/a",
)
ENTRIES: tuple[Any, ...] = (
    None,
    [],
    {},
    "x",
    1e999,
    [-1, ""],
    [0, ""],
    [1 << 62, ""],
    [17 << 20, ""],
    [1, None],
    ["1", "x"],
)

NAME = re.compile(r"'[^']*'|\"[^\"]*\"|\S+\.json")  # in a message


@dataclass(slots=True)
class Tally:
    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds of CPU


def main() -> None:
    parser = command.parser("lab.fuzzing.backups", __doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tally = fuzz(Random(options.seed), options.inputs)
    command.show(
        ["outcome", "inputs"], [[name, str(count)] for name, count in tally.outcomes.most_common()]
    )
    print(
        f"{tally.inputs} inputs, {len(tally.failures)} failures, "
        f"slowest {1000 * tally.slowest:.0f} ms of CPU"
    )
    for failure in tally.failures:
        print(failure)
    result = {"inputs": tally.inputs, "outcomes": tally.outcomes, "failures": tally.failures}
    command.finish(options, result)


def fuzz(rng: Random, inputs: int) -> Tally:
    """Failures: an exception but a UserError of one line, a restored home not whole, files left by
    a refused backup.
    """
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="swarm-node-backups-") as folder:
        kept = [_first(Path(folder))]
        while tally.inputs < inputs:
            data = changed(rng, kept)
            known = len(tally.outcomes)
            _try(Path(folder), data, tally)
            if len(tally.outcomes) > known and len(kept) < KEPT:
                kept.append(data)
    return tally


def changed(rng: Random, kept: list[bytes]) -> bytes:
    """A backup with one to three changes."""
    data = rng.choice(kept)
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = _listed_otherwise(rng, data) if rng.random() < 0.5 else mutate(rng, data, kept)
    return _with_hashes(data) if rng.random() < 0.5 else data


def _try(folder: Path, data: bytes, tally: Tally) -> None:
    file, home = folder / "backup", folder / "new"
    file.write_bytes(data)
    tally.inputs += 1
    began = time.process_time()
    try:
        names = restore(file, home)
        outcome = "restored"
        wrong = (
            ""
            if all((home / name).is_file() for name in names) and _inside(home, len(data))
            else "not whole"
        )
    except UserError as error:
        outcome = NAME.sub("NAME", str(error).partition("backup (")[2])[:40]
        wrong = (
            "wrote something"
            if home.exists()
            else ""
            if "\n" not in str(error)
            else "several lines"
        )
    except Exception as error:  # noqa: BLE001
        outcome, wrong = "raised", f"{type(error).__name__}: {error}"
    tally.slowest = max(tally.slowest, time.process_time() - began)
    tally.outcomes[outcome] += 1
    if wrong and len(tally.failures) < 10:
        tally.failures.append(f"{wrong} on {data[:1024]!r}")
    shutil.rmtree(home, ignore_errors=True)


def _inside(home: Path, size: int) -> bool:
    """Whether the home holds regular files alone, and no more bytes than the backup."""
    found = [path for path in home.rglob("*") if not path.is_dir()]
    return (
        not any(path.is_symlink() for path in found)
        and sum(path.stat().st_size for path in found) <= size
    )


def _first(folder: Path) -> bytes:
    for name, data in FILES.items():
        (folder / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "home" / name).write_bytes(data)
    backup(folder / "home", folder / "first")
    return (folder / "first").read_bytes()


def _parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The list of files, empty if it cannot be read, and what follows it."""
    line, _, contents = data.partition(b"\n")
    try:
        listed = json.loads(line)
    except (ValueError, RecursionError):
        listed = {}
    return listed if isinstance(listed, dict) else {}, contents


def _whole(listed: dict[str, Any], contents: bytes) -> bytes:
    return json.dumps(listed).encode() + b"\n" + contents


def _listed_otherwise(rng: Random, data: bytes) -> bytes:
    """The backup with another name or entry in its list."""
    listed, contents = _parts(data)
    name = rng.choice(list(listed) or [""])
    if rng.random() < 0.5:
        listed[rng.choice(NAMES)] = listed.pop(name, [0, ""])
    else:
        listed[name] = rng.choice(ENTRIES)
    return _whole(listed, contents)


def _with_hashes(data: bytes) -> bytes:
    """The backup with right sizes and hashes in its list; the last file has all bytes that are
    left.
    """
    listed, contents = _parts(data)
    place = 0
    for number, (name, entry) in enumerate(listed.items(), 1):
        size = entry[0] if isinstance(entry, list) and entry and isinstance(entry[0], int) else 0
        size = (
            min(max(0, size), len(contents) - place)
            if number < len(listed)
            else len(contents) - place
        )
        listed[name] = [size, hashlib.sha256(contents[place : place + size]).hexdigest()]
        place += size
    return _whole(listed, contents)


if __name__ == "__main__":
    main()
