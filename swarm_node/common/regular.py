"""Opens a file that a user named to be read: a regular one, so that reading it ends."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """Raises OSError, whose strerror says so for a pipe, device, socket or folder: at once, where open() would wait for
    somebody to write into a pipe."""
    return open(path, "rb", opener=_opened)


def _opened(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", path)
