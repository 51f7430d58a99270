"""Backups with something changed in them, restored: each is refused in one line and writes nothing, or is whole.

    python -m lab.fuzzing.backups --inputs 20000 --json

Bytes are changed as in `lab.fuzzing.fuzz`. Of most, the headers get right checksums and the list right hashes
afterwards, since otherwise nothing but those would be tested.
"""

import contextlib
import hashlib
import io
import json
import re
import shutil
import tarfile
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from lab.benchmarks import command
from lab.fuzzing.mutation import mutate
from swarm_node.commands.archive import HASHES
from swarm_node.commands.backup import backup, restore
from swarm_node.common.errors import UserError

BLOCK = tarfile.BLOCKSIZE
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
PAX = (
    "path=/etc/passwd", "path=identity.key", "linkpath=/etc/passwd", "size=0", "size=-1", "size=99999999999", "size=16",
    "GNU.sparse.major=1", "GNU.sparse.realsize=1900000000", "GNU.sparse.map=0,1,2", "GNU.sparse.name=x", "mtime=nan",
)  # fmt: skip
FIELDS = ((0, 100), (100, 8), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (329, 8), (345, 155), (386, 126))
TEXTS = (
    b"", b"/etc/passwd", b"../x", b"identity.key", b"checkpoints/1/x", b"checkpoints//1/x", b"77777777777", b"-1", b"0",
    b"\x80" + b"\xff" * 10, b"\xff" * 12, b"1", b"2", b"5", b"6", b"x", b"g", b"S", b"L", b"K", b"X", b"7", b"\0",
)  # fmt: skip

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
    command.show(["outcome", "inputs"], [[name, str(count)] for name, count in tally.outcomes.most_common()])
    print(f"{tally.inputs} inputs, {len(tally.failures)} failures, slowest {1000 * tally.slowest:.0f} ms of CPU")
    for failure in tally.failures:
        print(failure)
    result = {"inputs": tally.inputs, "outcomes": tally.outcomes, "failures": tally.failures}
    command.finish(options, result)


def fuzz(rng: Random, inputs: int) -> Tally:
    """Whatever restore raises but a UserError of one line is a failure, and so is what a refused backup left."""
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
        kind = rng.random()
        if kind < 0.4:
            data = _field(rng, data)
        elif kind < 0.6:
            data = _extended(rng, data)
        else:
            data = mutate(rng, data, kept)
    if rng.random() < 0.5:
        data = _with_hashes(data)
    return _with_checksums(data) if rng.random() < 0.8 else data


def _try(folder: Path, data: bytes, tally: Tally) -> None:
    file, home = folder / "b.tar", folder / "new"
    file.write_bytes(data)
    tally.inputs += 1
    began = time.process_time()
    try:
        names = restore(file, home)
        outcome = "restored"
        wrong = "" if all((home / name).is_file() for name in names) and _inside(home, len(data)) else "not whole"
    except UserError as error:
        outcome = NAME.sub("NAME", str(error).partition("backup (")[2])[:40]
        wrong = "wrote something" if home.exists() else "" if "\n" not in str(error) else "several lines"
    except Exception as error:  # noqa: BLE001
        outcome, wrong = "raised", f"{type(error).__name__}: {error}"
    tally.slowest = max(tally.slowest, time.process_time() - began)
    tally.outcomes[outcome] += 1
    if wrong and len(tally.failures) < 10:
        tally.failures.append(f"{wrong} on {data[:1024].rstrip(bytes(1))!r}")
    shutil.rmtree(home, ignore_errors=True)


def _inside(home: Path, size: int) -> bool:
    """No more bytes than the backup has, in regular files alone."""
    found = [path for path in home.rglob("*") if not path.is_dir()]
    return not any(path.is_symlink() for path in found) and sum(path.stat().st_size for path in found) <= size


def _first(folder: Path) -> bytes:
    for name, data in FILES.items():
        (folder / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "home" / name).write_bytes(data)
    backup(folder / "home", folder / "first.tar")
    return (folder / "first.tar").read_bytes()


def _headers(data: bytes) -> list[int]:
    """Where blocks begin that look like headers."""
    return [place for place in range(0, len(data) - BLOCK + 1, BLOCK) if data[place + 257 : place + 262] == b"ustar"]


def _field(rng: Random, data: bytes) -> bytes:
    """One field of one header is another."""
    places = _headers(data)
    if not places:
        return data
    begin, length = rng.choice(FIELDS)
    place, text = rng.choice(places) + begin, rng.choice(TEXTS)[:length]
    return data[:place] + text.ljust(length, b"\0") + data[place + length :]


def _extended(rng: Random, data: bytes) -> bytes:
    """A header that says more of the next one."""
    places = _headers(data)
    records = b"".join(_record(rng.choice(PAX)) for _ in range(rng.choice((1, 1, 2))))
    about = tarfile.TarInfo("././@PaxHeader")
    about.type = rng.choice((tarfile.XHDTYPE, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME))
    about.size = rng.choice((len(records), len(records), 0, 1 << 40))
    place = rng.choice(places) if places else 0
    return data[:place] + about.tobuf(tarfile.GNU_FORMAT) + records.ljust(BLOCK, b"\0") + data[place:]


def _record(text: str) -> bytes:
    length = len(text) + 3
    return f"{length + len(str(length)) - 1} {text}\n".encode()


def _with_checksums(data: bytes) -> bytes:
    """Right ones, in whatever looks like a header."""
    made = bytearray(data)
    for place in _headers(data):
        made[place + 148 : place + 156] = b" " * 8
        made[place + 148 : place + 156] = b"%06o\x00 " % sum(made[place : place + BLOCK])
    return bytes(made)


def _with_hashes(data: bytes) -> bytes:
    """A list that has what the standard library finds, in place of the one that is there."""
    hashes: dict[str, str] = {}
    end = len(data)
    with contextlib.suppress(Exception), tarfile.open(fileobj=io.BytesIO(_with_checksums(data))) as tar:
        for member in tar:
            if member.name == HASHES:
                end = member.offset
                break
            if member.size < 1 << 20 and (content := tar.extractfile(member)) is not None:
                hashes[member.name] = hashlib.sha256(content.read(1 << 20)).hexdigest()
    listed = json.dumps(hashes).encode()
    about = tarfile.TarInfo(HASHES)
    about.size = len(listed)
    tail = about.tobuf(tarfile.PAX_FORMAT) + listed + bytes(-len(listed) % BLOCK) + bytes(2 * BLOCK)
    return data[:end] + tail


if __name__ == "__main__":
    main()
