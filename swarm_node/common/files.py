"""Files of a home: private to their user, plain, and never written through a link; JSON files,
whole or not at all.

A pipe in place of a file would block the process that opens it for ever. Writing through a link
would overwrite another file.
"""

import errno
import json
import math
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from swarm_node.common.errors import UserError, printable

PIECE = 1024 * 1024  # bytes read at a time
_OPEN = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY  # a pipe opens at once, or not at all


def cached(name: str) -> Path:
    """The path of this name in this user's cache of downloads."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "swarm-node" / name


def open_to_write(path: Path, *, append: bool = False, mode: int | None = 0o600) -> BinaryIO:
    """The file with this mode, unbuffered, and emptied unless it is appended to. None leaves the
    mode to the umask. Raises OSError where something other than a plain file or a device lies
    there, a link included.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | _OPEN | (os.O_APPEND if append else 0)
    descriptor = os.open(path, flags, 0o666 if mode is None else mode)
    try:
        _plain(descriptor, path, or_device=True)
        if mode is not None and os.fstat(descriptor).st_uid == os.geteuid():
            os.fchmod(descriptor, mode)
        if append:
            with suppress(OSError):  # a device cannot seek
                os.lseek(descriptor, 0, os.SEEK_END)
        elif stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.ftruncate(descriptor, 0)
        return open(descriptor, "ab" if append else "wb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def open_to_read(path: Path, *, follow: bool = True) -> BufferedReader:
    """The file. Raises OSError where it is not a plain file: reading a pipe might block, and a
    device may have no end.

    Without `follow` OSError for a link, too. That is how files of a home are read: a link in a
    home that a stranger made may lead to any file of this user.
    """
    flags = os.O_RDONLY | _OPEN | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "it is a link: put the file itself there", path) from error
        raise
    file = open(descriptor, "rb")  # noqa: SIM115  for the caller
    try:
        _plain(file.fileno(), path)
    except BaseException:
        file.close()
        raise
    return file


def read_plain(path: Path, most: int = -1, *, follow: bool = True) -> bytes:
    """The content, or its first `most` bytes. OSError as `open_to_read` raises it."""
    content = bytearray()
    with open_to_read(path, follow=follow) as file:
        if most < 0:
            return file.read()
        # In pieces: for a small file, too, a read of a gigabyte would take a gigabyte
        while piece := file.read(min(most - len(content), PIECE)):
            content += piece
    return bytes(content)


def is_plain(path: Path) -> bool:
    """Whether this is a plain file, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


# What users put into a home themselves: it may be kept elsewhere
MAY_BE_LINKS = {"identity.key", "access.toml", "swarm.card"}
OF_LIBRARIES = {"trackio"}  # folders of a home that a library fills
MOST_LOOKED_AT, DEEPEST = 20_000, 4  # entries of a home; a checkpoint's files are two below it


def links_in(home: Path) -> list[str]:
    """The links among the files and folders of a home, as they are called there."""
    found, looked_at = list[str](), 0
    waiting = [(home, 1)]
    while waiting:
        folder, depth = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                looked_at += 1
                if looked_at > MOST_LOOKED_AT:
                    return sorted(found)
                name = os.path.relpath(entry.path, home)
                if entry.is_symlink():
                    found += [] if name in MAY_BE_LINKS else [name]
                elif entry.is_dir(follow_symlinks=False) and name not in OF_LIBRARIES:
                    waiting += [(Path(entry.path), depth + 1)] if depth < DEEPEST else []
    return sorted(found)


def check_links(home: Path) -> None:
    """UserError where a home holds links. Nothing in a home grants anything, as it may be a
    stranger's: a link would have this user's files read as the home's own, or files elsewhere
    written and deleted, such as the checkpoints of another home.
    """
    if links := links_in(home):
        more = f" and {len(links) - 1} more" if len(links) > 1 else ""
        raise UserError(
            f"{home} holds a link, {printable(links[0], 60)}{more}, and a home may hold no "
            "links: put the file or folder itself there, or name another --home"
        )


def has_holes(descriptor: int) -> bool:
    """Whether parts of the file were never written: it takes seconds to make one of terabytes, and
    hours to read it. Reading continues at the start of the file.
    """
    size = os.fstat(descriptor).st_size
    try:
        return size > 0 and os.lseek(descriptor, 0, os.SEEK_HOLE) < size
    except OSError:  # not on every file system
        return False
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


def keep_private(folder: Path) -> None:
    """Makes the folder, and all files and folders in it, private to their user. Links, and files of
    other users, are left as they are; a file may vanish meanwhile.
    """
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            _close_to_others(Path(place, name))


def _close_to_others(path: Path) -> None:
    with suppress(OSError):
        status = path.lstat()
        is_own_file = status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)
        if not is_own_file or not status.st_mode & 0o077:
            return
        path.chmod(status.st_mode & 0o700)


def _plain(descriptor: int, path: Path, or_device: bool = False) -> None:
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode) and not (or_device and stat.S_ISCHR(mode)):
        raise OSError(errno.EINVAL, "not a plain file", str(path))


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: tuples as lists, paths as text, numbers that are not finite as
    null.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as JSON that people can read, whole or not at all: see `write_bytes`."""
    write_bytes(path, (pretty(plain(value)) + "\n").encode())


def pretty(value: Any, indent: str = "") -> str:
    """JSON with one key a line. A list without objects or lists in it stays on one line."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        rows = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {pretty(each, inner)}"
            for key, each in value.items()
        ]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        return "[\n" + ",\n".join(inner + pretty(each, inner) for each in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def write_bytes(path: Path, content: bytes | Iterable[memoryview], mode: int = 0o666) -> None:
    """Writes a file next to `path` and renames it, so that a reader sees, and a power cut leaves,
    the old file or the new one. The umask applies to `mode`.

    Raises OSError if the disk is full or the folder read-only, and removes the file next to it.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # Left by a killed process with this id, or a link that somebody put there
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with open(descriptor, "wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
