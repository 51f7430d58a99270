"""The home folder: the process that owns it, and the identity in it. The identity is a file of mode
0600, made once, never overwritten, and not encrypted.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from protocol.identity import KEY_BYTES, Identity
from swarm_node.common.errors import UserError, reason_of
from swarm_node.common.files import check_links, keep_private
from swarm_node.common.shell import typed

KEY_FILE = "identity.key"
LOCK_FILE = "lock"


def load_identity(home: Path) -> Identity:
    """The identity of this home, made the first time."""
    return load_or_create(home / KEY_FILE)


@contextmanager
def owned(home: Path) -> Iterator[None]:
    """Locks the home for one process at a time; the lock ends with the process, however that ends.
    UserError.
    """
    check_links(home)
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Else it may hold other files of its user
        ours = (home / KEY_FILE).exists() or not any(home.iterdir())
        descriptor = os.open(
            home / LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600
        )
    except FileExistsError as error:
        raise UserError(f"home {home} is a file: choose another --home") from error
    except OSError as error:
        remedy = f"make it writable for user {os.getuid()}, or choose another with --home"
        raise UserError(f"home {home}: {reason_of(error)}; {remedy}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(
                f"another node runs in {home}: stop it, or choose another --home"
            ) from error
        if ours:
            keep_private(home)
        yield
    finally:
        os.close(descriptor)


def in_use(home: Path) -> bool:
    """Whether a node runs in this home."""
    try:
        descriptor = os.open(home / LOCK_FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def load_or_create(path: Path) -> Identity:
    """The identity in this file; a new one, written there, if there is none. Two processes at once
    get the same one. Raises UserError.
    """
    try:
        if not os.path.lexists(path):
            with suppress(FileExistsError):  # another process was faster: take its key
                _create(path)
        return _load(path)
    except OSError as error:
        raise UserError(
            f"key file {path}: {error.strerror or error}; this user must read it, and write its "
            "folder"
        ) from error


def _create(path: Path) -> None:
    """Writes a new key. The key is on disk before it has its name, and `link` never replaces a
    file: raises FileExistsError, and changes nothing, where another process was faster.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # O_EXCL, mode 0600, removed in any case
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as file:
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
    # A pipe in its place must not block the start
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise UserError(f"key file {path}: not a regular file; move away what has this name")
        if mode & 0o077:
            raise UserError(
                f"key file {path}: others may open it (mode {mode & 0o777:03o}); run: "
                f"{typed('chmod', 600, path)}"
            )
        data = file.read(KEY_BYTES + 1)
    try:
        return Identity.from_key_bytes(data)
    except ValueError as error:
        raise UserError(
            f"key file {path}: {error}; put back a copy of it, or move it away to get a new "
            "identity"
        ) from error
