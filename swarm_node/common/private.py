"""Files of a home: for its user alone, plain files, and never what a link points at.

A pipe in place of a file would block whoever opens it for ever; a link would have another file written over.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_OPEN = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY  # of a pipe: at once, or not at all


def open_to_write(path: Path, *, append: bool = False) -> BinaryIO:
    """The file, emptied unless it is appended to; made with mode 0600 where there is none, and changed to it where
    others may open it. Unbuffered. OSError where something else than a file lies there, a link included."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | _OPEN | (append and os.O_APPEND), 0o600)
    try:
        _plain(descriptor, path)
        if os.fstat(descriptor).st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
        if not append:
            os.ftruncate(descriptor, 0)
        return open(descriptor, "ab" if append else "wb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def read_plain(path: Path, most: int = -1) -> bytes:
    """The content, or its first `most` bytes. OSError where it is no plain file: nobody waits for a pipe."""
    descriptor = os.open(path, os.O_RDONLY | _OPEN)
    with open(descriptor, "rb") as file:
        _plain(descriptor, path)
        return file.read(most)


def keep_private(folder: Path) -> None:
    """What lies in it, at any depth, and the folder itself: for their user alone. What belongs to others, and what
    goes away meanwhile, is left as it is."""
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            _close_to_others(Path(place, name))


def _close_to_others(path: Path) -> None:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or status.st_uid != os.geteuid() or not status.st_mode & 0o077:
            return
        path.chmod(status.st_mode & 0o700)
    except OSError:
        pass


def _plain(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "not a plain file", str(path))
