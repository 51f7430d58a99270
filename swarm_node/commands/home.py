"""The home folder: who owns it, and whose it is."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol.identity import Identity
from swarm_node.common import private
from swarm_node.common.errors import UserError
from swarm_node.network.keyfile import load_or_create

KEY_FILE = "identity.key"
LOCK_FILE = "lock"


def load_identity(home: Path) -> Identity:
    """The identity of this home, made the first time."""
    return load_or_create(home / KEY_FILE)


@contextmanager
def owned(home: Path) -> Iterator[None]:
    """The home belongs to one process at a time; the lock goes away with the process, however it ends."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        ours = (home / KEY_FILE).exists() or not any(home.iterdir())  # else it may be a folder of somebody's papers
        descriptor = os.open(home / LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except FileExistsError as error:
        raise UserError(f"home {home} is a file: choose another --home") from error
    except OSError as error:
        remedy = f"make it writable for user {os.getuid()}, or choose another with --home"
        raise UserError(f"home {home}: {error.strerror}; {remedy}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"another node runs in {home}: stop it, or choose another --home") from error
        if ours:
            private.keep_private(home)
        yield
    finally:
        os.close(descriptor)


def in_use(home: Path) -> bool:
    """Whether a node runs in it."""
    try:
        descriptor = os.open(home / LOCK_FILE, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)
