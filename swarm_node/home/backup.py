"""`swarm-node home id`: this node's name in the swarm. `home backup` and `home restore`: what a
home cannot make again, in one checked file.

A backup holds the private key, so its mode is 0600, as the key's. `archive.py` describes the file.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from swarm_node.common.command import Command
from swarm_node.common.errors import TemporaryError, UserError
from swarm_node.common.files import has_holes, open_to_read
from swarm_node.common.shell import typed
from swarm_node.home import archive
from swarm_node.home.archive import FILES, FOLDERS, ArchivedFile, BadArchive
from swarm_node.home.folder import KEY_FILE, in_use, load_identity, owned
from swarm_node.settings import ArchiveConfig, NodeConfig
from swarm_node.settings.command_line import from_command_line

ID_PAGE = """\
usage: swarm-node home id [CONFIG.toml] [--home FOLDER]

Prints the identity of a node, which is its name in the swarm. If the home
folder has none yet, this command makes one, as run does.

  --home FOLDER   home folder of the node (~/.swarm-node)"""

BACKUP_PAGE = """\
usage: swarm-node home backup FILE [--home FOLDER]

Saves in one file what a node cannot make again: its identity, its newest and
its best checkpoint, and the peers that it knows. This also works while the node
runs. The file contains the node's private key, so keep it safe.

  --home FOLDER   home folder of the node (~/.swarm-node)"""

RESTORE_PAGE = """\
usage: swarm-node home restore FILE [--home FOLDER]

Makes a home folder from a backup. Everything is checked before anything is
written, and a home folder that already has an identity or checkpoints is not
changed.

  --home FOLDER   home folder to make (~/.swarm-node)"""


def backup(home: Path, file: Path) -> list[str]:
    """Writes the file, whole or not at all; returns the names in it. Raises UserError where it
    exists, or there is no node.
    """
    if not (home / KEY_FILE).is_file():
        raise UserError(f"home {home} holds no node: name its folder with --home")
    if os.path.lexists(file):
        raise UserError(f"{file} exists: remove it, or choose another name")
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as out:
            names = _write(out, home)
            out.flush()
            os.fsync(descriptor)
        part.rename(file)
    except OSError as error:
        raise UserError(
            f"{file}: {error.strerror or error}; nothing was written: make room there, or name a "
            "file in another folder"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return names


def restore(file: Path, home: Path) -> list[str]:
    """Restores all files, and returns their names. Raises UserError for a file that is damaged, and
    for a home that holds a node: then nothing was written.
    """
    if in_use(home):
        raise TemporaryError(f"a node runs in {home}: stop it, or choose another --home")
    is_taken = any(os.path.lexists(home / name) for name in (KEY_FILE, *FOLDERS))
    if is_taken or any((home / name).is_dir() for name in FILES):
        raise UserError(f"home {home} holds a node already: choose another --home, or move it away")
    try:
        with open_to_read(file) as content:
            _check_room(file, os.fstat(content.fileno()).st_size, home)
            members = archive.survey(content)
            with owned(home):
                _unpack(content, members, home)
    except (OSError, BadArchive) as error:
        text = getattr(error, "strerror", None) or error
        raise UserError(
            f"{file} is not a whole backup ({text}); nothing was restored: it was cut off or "
            "changed, "
            "take another"
        ) from error
    return list(members)


def _check_room(file: Path, size: int, home: Path) -> None:
    """UserError where the disk of the home has less room than the size of the backup, which its
    files take there.
    """
    folders = home, *home.absolute().parents
    there = next(filter(Path.exists, folders))
    free = shutil.disk_usage(there).free
    if size > free:
        raise UserError(
            f"{file} has {size >> 20} MB, and {free >> 20} MB are free at {there}: make room "
            "there, or choose another --home"
        )


def _unpack(content: BinaryIO, members: Mapping[str, ArchivedFile], home: Path) -> None:
    """Writes every file of the archive to a new folder in the home, then moves it to its place.
    Raises OSError, and BadArchive where the archive has changed since it was checked.
    """
    new = Path(tempfile.mkdtemp(prefix=".restore-", dir=home))
    try:
        for name, member in members.items():
            target, found = new / name, hashlib.sha256()
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as out:
                for piece in archive.pieces(content, member):
                    found.update(piece)
                    out.write(piece)
            if found.hexdigest() != member.digest:
                raise BadArchive("it changes while it is read")
        # The key last: then it is a home
        for top in sorted(new.iterdir(), key=lambda path: path.name == KEY_FILE):
            top.rename(home / top.name)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _write(out: BinaryIO, home: Path) -> list[str]:
    """Returns the names. Opens all files first: a node that runs meanwhile puts others in their
    places.
    """
    with ExitStack() as stack:
        files: dict[str, BufferedReader] = {}
        for path in _kept(home):
            name = path.relative_to(home).as_posix()
            files[name] = stack.enter_context(_opened(path))
        listed = {}
        for name, file in files.items():
            if not archive.may_hold(name):
                raise UserError(
                    f"{home / name} has a name that restore would refuse: rename or remove it"
                )
            size = os.fstat(file.fileno()).st_size
            if ("/" not in name and size > archive.MAX_SMALL_BYTES) or has_holes(file.fileno()):
                raise UserError(f"{home / name} is too large, or a sparse file: move it away")
            listed[name] = (
                size,
                hashlib.file_digest(file, "sha256").hexdigest(),
            )
        out.write(archive.head(listed))
        for file in files.values():
            file.seek(0)
            shutil.copyfileobj(file, out)
    return list(files)


def _opened(path: Path) -> BufferedReader:
    """The file. Raises UserError where it cannot be read, or is a link, which may lead anywhere."""
    try:
        return open_to_read(path, follow=False)
    except OSError as error:
        raise UserError(
            f"{path} cannot be backed up: {error.strerror}; make it readable"
        ) from error


def _kept(home: Path) -> Iterator[Path]:
    """Files to keep: the newest of the whole checkpoints of each folder, which stays whole while a
    node runs.
    """
    for name in FILES:
        if (home / name).is_file():
            yield home / name
    for folder in FOLDERS:
        checkpoints = sorted((home / folder).glob("[0-9]*"))
        whole = [path for path in checkpoints if (path / "state.json").is_file()]
        if whole:
            yield from filter(Path.is_file, sorted(whole[-1].rglob("*")))


def backup_command(argv: list[str]) -> None:
    """Prints what was kept."""
    config = from_command_line(ArchiveConfig, argv, "swarm-node home backup", first="file")
    home = config.home.expanduser()
    names = backup(home, _named(config, "backup"))
    print(
        f"kept {len(names)} files of {home} in {config.file}; it holds the private key of this "
        "node: keep it safe"
    )


def restore_command(argv: list[str]) -> None:
    """Prints what was restored."""
    config = from_command_line(ArchiveConfig, argv, "swarm-node home restore", first="file")
    home = config.home.expanduser()
    names = restore(_named(config, "restore"), home)
    command = typed("swarm-node", "run", "--home", home)
    print(f"restored {len(names)} files to {home}; continue with: {command}")


def _named(config: ArchiveConfig, command: str) -> Path:
    if config.file is None:
        raise UserError(f"name the file: swarm-node home {command} FILE")
    return config.file.expanduser()


def id_command(argv: list[str]) -> None:
    """Prints the peer id; says so if it is a new one."""
    home = from_command_line(NodeConfig, argv, "swarm-node home id").home.expanduser()
    existed = (home / KEY_FILE).exists()
    identity = load_identity(home)
    if not existed:
        print(
            f"made {home / KEY_FILE}: keep a copy, it is this node's name in the swarm",
            file=sys.stderr,
        )
    print(identity.peer_id)


ID = Command(NodeConfig, ID_PAGE, id_command)
BACKUP = Command(ArchiveConfig, BACKUP_PAGE, backup_command)
RESTORE = Command(ArchiveConfig, RESTORE_PAGE, restore_command)
