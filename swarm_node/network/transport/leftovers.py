"""Folders of sockets in the temporary folder whose daemon was killed, with all that would have removed them."""

import os
import shutil
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

STALE_SECONDS = 60.0  # a daemon that starts has no socket yet


def sweep(parent: Path, older: float = STALE_SECONDS) -> None:
    """Removes the socket folders of daemons that were killed with all that belonged to them: nobody answers there."""
    for folder in parent.glob("swarm-node-????????"):
        with suppress(OSError):
            status = folder.lstat()
            ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if ours and folder.name != f"swarm-node-{os.getuid()}" and _age(status) > older and not _answers(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _age(status: os.stat_result) -> float:
    """Seconds since a file was changed, by the clock of the file system, which is that of a new file."""
    with tempfile.NamedTemporaryFile(prefix="swarm-node-clock-") as now:
        return os.fstat(now.fileno()).st_mtime - status.st_mtime


def _answers(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(folder / "control"))
        except OSError:
            return False
        return True
