"""The identity on disk: one file of mode 0600, made once, never overwritten, not encrypted."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from protocol.identity import KEY_BYTES, Identity
from swarm_node.common.errors import UserError


def load_or_create(path: Path) -> Identity:
    """The identity in this file; a new one, written there, if there is none. Two processes at once get the same one.
    UserError."""
    try:
        if not os.path.lexists(path):
            with suppress(FileExistsError):  # another process was faster: take its key
                _create(path)
        return _load(path)
    except OSError as error:
        raise UserError(f"key file {path}: {error.strerror or error}") from error


def _create(path: Path) -> None:
    """All or nothing: the key is on disk before it has its name, and `link` never replaces a file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as file:  # O_EXCL, mode 0600, removed in any case
        file.write(Identity.create().key_bytes())
        file.flush()
        os.fsync(file.fileno())
        os.link(file.name, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # an identity that was shown to others must survive a power cut
    finally:
        os.close(directory)


def _load(path: Path) -> Identity:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe in its place must not block the start
    with open(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise UserError(f"key file {path}: not a regular file")
        if mode & 0o077:
            raise UserError(f"key file {path}: others may open it (mode {mode & 0o777:03o}); run: chmod 600 {path}")
        data = file.read(KEY_BYTES + 1)
    try:
        return Identity.from_key_bytes(data)
    except ValueError as error:
        raise UserError(f"key file {path}: {error}; move it away to get a new identity") from error
