"""The record of what this user named for each home: files, plug-ins and task sets.

Nothing inside a home grants anything, as it may be a stranger's. So what a home may not name is
kept outside of it, in the state folder of this user, and is known again only where all of this
holds:

1. The home lies at the same real path.
2. It has the same identity: who unpacks another home there gets nothing.
3. Every file that the value names is the same file, with the same SHA-256 digest.

The record is one JSON file of this user alone. There is no record where its folder would lie within
the home, where another user could write it, or where there is no such folder. A secret is never in
it.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from swarm_node.common.files import PIECE, open_to_read, pretty, write_bytes
from swarm_node.common.files import plain as as_json
from swarm_node.common.parsing import parse_typed, read_whole

RECORD, LOCK = "homes.json", "homes.lock"
FORMAT = 1
MAX_BYTES = 1 << 20  # of the record
MAX_HOMES = 500  # those that were noted longest ago go first


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that a value names."""

    path: str  # as the value has it
    real: str  # where it leads
    digest: str  # SHA-256 of its content, in hexadecimal digits


@dataclass(frozen=True, slots=True)
class Trouble:
    """What became of a file that this user named for a home."""

    path: str
    gone: bool  # it cannot be read; else its content is another

    def __str__(self) -> str:
        if self.gone:
            return f"{self.path}, which this home was trained on, cannot be read"
        return f"{self.path} has changed since this home was trained on it"


@dataclass(frozen=True, slots=True)
class NotedOption:
    """The value that this user gave an option, and the files in it."""

    value: Any
    files: list[NamedFile] = field(default_factory=list)

    def trouble(self) -> Trouble | None:
        """What became of a file in it; None where all of them are what they were."""
        for file in self.files:
            now = digest(file.path)
            if now != file.digest or os.path.realpath(file.path) != file.real:
                return Trouble(file.path, now is None)
        return None


@dataclass(frozen=True, slots=True)
class Noted:
    """What is noted of a home."""

    identity: str  # its peer id
    options: dict[str, NotedOption]


@dataclass(frozen=True, slots=True)
class Record:
    """What is noted of all homes, by their real paths."""

    format: int = FORMAT
    homes: dict[str, Noted] = field(default_factory=dict)


def noted(home: Path, identity: str) -> Mapping[str, NotedOption]:
    """What this user named for this home, by the keys of options; nothing where the home is
    another, or where there is no record that only this user could write.
    """
    folder = state_folder(home)
    record = _read(folder) if folder and identity else Record()
    entry = record.homes.get(os.path.realpath(home))
    return entry.options if entry and entry.identity == identity else {}


def note(home: Path, identity: str, values: Mapping[str, Any]) -> None:
    """Notes these values for this home, in place of those before. OSError, or ValueError, where
    they cannot be kept.
    """
    folder, key = state_folder(home), os.path.realpath(home)
    if folder is None:
        if not values:
            return
        raise OSError("there is no state folder outside of the home")
    if not values and key not in _read(folder).homes:
        return
    named = {option: _named(as_json(value)) for option, value in values.items()}
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder):
        homes = dict(_read(folder).homes)
        homes.pop(key, None)
        if named:
            homes[key] = Noted(identity, named)
        kept = dict(list(homes.items())[-MAX_HOMES:])
        content = f"{pretty(asdict(Record(homes=kept)))}\n".encode()
        if len(content) > MAX_BYTES:
            raise ValueError(f"the record would be above {MAX_BYTES >> 20} MB")
        write_bytes(folder / RECORD, content, 0o600)


def state_folder(home: Path) -> Path | None:
    """Where this user's programs keep what they note; None where it cannot be told, or lies within
    the home, whose content may be a stranger's.
    """
    named = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(named) if os.path.isabs(named) else Path("~/.local/state").expanduser()
    except RuntimeError:  # neither HOME nor an entry of this user
        return None
    folder = base / "swarm-node"
    real, inside = Path(os.path.realpath(folder)), Path(os.path.realpath(home))
    return None if not base.is_absolute() or real.is_relative_to(inside) else folder


def files_in(value: Any) -> list[str]:
    """The absolute paths in a value: alone, or as FILE of FILE:CLASS or ADAPTER:FILE:CLASS."""
    texts = value if isinstance(value, list | tuple) else [value]
    found: list[str] = []
    for text in map(str, texts):
        parts = [text] if os.path.isfile(text) else text.split(":")
        found += [part for part in parts if os.path.isabs(part)]
    return found


def digest(path: str) -> str | None:
    """SHA-256 of the content of a plain file; None where it cannot be read."""
    hashed = hashlib.sha256()
    try:
        with open_to_read(Path(path)) as file:
            while piece := file.read(PIECE):
                hashed.update(piece)
    except (OSError, ValueError):
        return None
    return hashed.hexdigest()


def _named(value: Any) -> NotedOption:
    files = []
    for path in files_in(value):
        if (content := digest(path)) is None:
            raise OSError(f"{path} cannot be read")
        files.append(NamedFile(path, os.path.realpath(path), content))
    return NotedOption(value, files)


def _read(folder: Path) -> Record:
    file = folder / RECORD
    try:
        if not all(map(ours_alone, (folder, file))):
            return Record()
        record = parse_typed(read_whole(file, MAX_BYTES), Record)
    except (OSError, ValueError):
        return Record()
    return record if record.format == FORMAT else Record()


def ours_alone(path: Path) -> bool:
    """Whether only this user could have written it."""
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Two nodes that start at once do not lose each other's note."""
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(folder / LOCK, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(OSError):
            folder.chmod(0o700)
        yield
    finally:
        os.close(descriptor)
