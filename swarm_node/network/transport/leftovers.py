"""Folders for sockets, and the removal of those that a killed process left behind."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from swarm_node.common.errors import UserError, reason_of

UNIX_PATH_BYTES = 100  # the system's limit is 108, 104 on macOS
# Younger folders may not be locked yet: a process does that just after making one
STALE_SECONDS = 60.0


@contextmanager
def socket_room(home: Path | None = None) -> Iterator[Path]:
    """A folder for the sockets of one network process, which may make none elsewhere; removed at
    the end. In `home`, where one is given and its path is short enough, else in the temporary
    folder. UserError where none can be made.
    """
    for parent in filter(None, (home, Path(tempfile.gettempdir()))):
        sweep(parent)
    folder = _private_folder(*filter(None, (home,)), Path(tempfile.gettempdir()), Path("/tmp"))  # noqa: S108
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(held, fcntl.LOCK_SH)  # while somebody holds it, no other node sweeps it away
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _private_folder(*parents: Path) -> Path:
    """A new folder that nobody else may enter, in the first of `parents` where its path is short
    enough.
    """
    for parent in parents:
        try:
            folder = Path(tempfile.mkdtemp(prefix="swarm-node-", dir=parent))
        except OSError as error:
            raise UserError(
                f"no place for sockets in {parent}: {reason_of(error)}; make it writable, or set "
                "TMPDIR to another"
            ) from error
        if len(str(folder)) + len("/p2pd-12345678/control") <= UNIX_PATH_BYTES:
            return folder
        folder.rmdir()
    raise UserError(
        "paths of temporary files are too long for sockets; set TMPDIR to a short one, such as /tmp"
    )


def sweep(parent: Path) -> None:
    """Removes the socket folders that nobody holds any more."""
    for folder in parent.glob("swarm-node-????????"):
        with suppress(OSError):
            status = folder.lstat()
            ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            ours = ours and folder.name != f"swarm-node-{os.getuid()}"  # the folder of control.py
            if ours and _age(status) > STALE_SECONDS and not _held(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _age(status: os.stat_result) -> float:
    """Seconds since a file was changed, by the clock of the file system, which a new file shows."""
    with tempfile.NamedTemporaryFile(prefix="swarm-node-clock-") as now:
        return os.fstat(now.fileno()).st_mtime - status.st_mtime


def _held(folder: Path) -> bool:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False
