"""`swarm-node backup` and `restore`: what a home cannot make again, in one file, checked before it is taken back.

A tar file with the hash of each file in its last member. It holds the private key: mode 0600, as the key itself.
"""

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from swarm_node.commands.home import KEY_FILE, in_use, owned
from swarm_node.commands.table import Command
from swarm_node.common.errors import UserError
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.programs import ArchiveConfig

HASHES = "swarm-node-backup.json"  # the last member: a file that was cut off lacks it
FOLDERS = ("checkpoints", "best")
FILES = (KEY_FILE, "peers.json", "exchange.json", "manifest.json")
CHUNK = 1024 * 1024  # bytes

BACKUP_PAGE = """\
usage: swarm-node backup FILE [--home FOLDER]

What the home of a node cannot make again, in one file: its identity, newest and
best checkpoint, and whom it knows. Also while the node runs. Keep it as safe as
the key that is in it.

  --home FOLDER   of the node (~/.swarm-node)"""

RESTORE_PAGE = """\
usage: swarm-node restore FILE [--home FOLDER]

A home from a backup. All of it is checked before anything is written; a home
that has an identity or checkpoints is left alone.

  --home FOLDER   where it goes (~/.swarm-node)"""


class _Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


def backup(home: Path, file: Path) -> list[str]:
    """Writes the file, whole or not at all. The names in it. UserError where there is nothing to keep, or it exists."""
    if not (home / KEY_FILE).is_file():
        raise UserError(f"home {home} holds no node: name its folder with --home")
    if os.path.lexists(file):
        raise UserError(f"{file} exists: remove it, or choose another name")
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as out:
            hashes = _write(out, home)
            out.flush()
            os.fsync(descriptor)
        part.rename(file)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}; nothing was written") from error
    finally:
        part.unlink(missing_ok=True)
    return list(hashes)


def restore(file: Path, home: Path) -> list[str]:
    """Puts everything back. The names. UserError for a file that is damaged, and for a home that holds a node."""
    if in_use(home):
        raise UserError(f"a node runs in {home}: stop it, or choose another --home")
    if any((home / name).exists() for name in (KEY_FILE, *FOLDERS)):
        raise UserError(f"home {home} holds a node already: choose another --home, or move it away")
    with owned(home):
        new = Path(tempfile.mkdtemp(prefix=".restore-", dir=home))
        try:
            names = _unpack(file, new)
            for top in sorted(new.iterdir(), key=lambda path: path.name == KEY_FILE):  # the key last: then it is a home
                top.rename(home / top.name)
        except (OSError, tarfile.TarError, EOFError, ValueError) as error:
            text = getattr(error, "strerror", None) or error
            raise UserError(f"{file} is no whole backup ({text}); nothing was restored") from error
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return names


def _write(out: Any, home: Path) -> dict[str, str]:
    hashes: dict[str, str] = {}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in _kept(home):
            name = path.relative_to(home).as_posix()
            with path.open("rb") as file:
                about = tarfile.TarInfo(name)
                about.size, about.mode = os.fstat(file.fileno()).st_size, 0o600
                reader = _Hashing(file)
                archive.addfile(about, reader)
                hashes[name] = reader.hash.hexdigest()
        listed = json.dumps(hashes).encode()
        about = tarfile.TarInfo(HASHES)
        about.size = len(listed)
        archive.addfile(about, io.BytesIO(listed))
    return hashes


def _kept(home: Path) -> Iterator[Path]:
    """Files to keep: the newest of the whole checkpoints of each folder, which stays whole while a node runs."""
    for name in FILES:
        if (home / name).is_file():
            yield home / name
    for folder in FOLDERS:
        whole = sorted(path for path in (home / folder).glob("[0-9]*") if (path / "state.json").is_file())
        yield from (path for last in whole[-1:] for path in sorted(last.rglob("*")) if path.is_file())


def _unpack(file: Path, folder: Path) -> list[str]:
    """Every file of the archive, its hash checked, below `folder`. ValueError for what a backup does not hold."""
    found: dict[str, str] = {}
    listed: dict[str, str] | None = None
    with tarfile.open(file, "r:") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is None or not _expected(member.name):
                raise ValueError(f"it holds {member.name!r}")
            if member.name == HASHES:
                listed = json.load(content)
                continue
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                reader = _Hashing(content)
                shutil.copyfileobj(reader, out, CHUNK)
                found[member.name] = reader.hash.hexdigest()
    if listed is None or found != listed:
        raise ValueError("it is cut off" if listed is None else "what is in it has changed")
    return list(found)


def _expected(name: str) -> bool:
    parts = name.split("/")
    return ".." not in parts and (name in (HASHES, *FILES) or (parts[0] in FOLDERS and len(parts) > 2))


class _Hashing:
    """Reads, and hashes what it read."""

    def __init__(self, file: _Readable) -> None:
        self._file, self.hash = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.hash.update(data)
        return data


def backup_command(argv: list[str]) -> None:
    """Prints what was kept."""
    config = from_command_line(ArchiveConfig, argv, "swarm-node backup", first="file")
    home = config.home.expanduser()
    names = backup(home, _named(config, "backup"))
    print(f"kept {len(names)} files of {home} in {config.file}; it holds the private key of this node: keep it safe")


def restore_command(argv: list[str]) -> None:
    """Prints what was restored."""
    config = from_command_line(ArchiveConfig, argv, "swarm-node restore", first="file")
    home = config.home.expanduser()
    names = restore(_named(config, "restore"), home)
    print(f"restored {len(names)} files to {home}; go on with: swarm-node run --home {home}")


def _named(config: ArchiveConfig, command: str) -> Path:
    if config.file is None:
        raise UserError(f"name the file: swarm-node {command} FILE")
    return config.file.expanduser()


BACKUP = Command(ArchiveConfig, BACKUP_PAGE, backup_command)
RESTORE = Command(ArchiveConfig, RESTORE_PAGE, restore_command)
