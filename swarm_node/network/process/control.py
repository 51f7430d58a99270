"""The status of a running node, over a unix socket in its home folder that only its user may open.

The node answers each connection with one JSON object; no request is needed, as there is only one
question. Where the path is too long for a socket, the socket lies in a folder of the same user
below the temporary directory instead.
"""

import asyncio
import hashlib
import json
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from swarm_node.common.errors import UserError, reason_of
from swarm_node.common.parsing import parse_json

MAX_PATH_BYTES = 100  # sun_path holds 108 on Linux, 104 elsewhere
ANSWER_SECONDS = 10.0
MAX_ANSWER_BYTES = 16 * 1024 * 1024


def socket_path(home: Path) -> Path:
    """Where the socket of this home is. UserError where somebody else owns the folder it would have
    to be in.
    """
    path = home.absolute() / "control.sock"
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        return path
    folder = Path(tempfile.gettempdir()) / f"swarm-node-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise UserError(f"folder {folder}: {reason_of(error)}; choose a shorter --home") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise UserError(
            f"folder {folder} is not this user's alone: remove it, or choose a shorter --home"
        )
    return folder / (hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:24] + ".sock")


async def serve(home: Path, answer: Callable[[], Awaitable[dict[str, Any]]]) -> asyncio.Server:
    """Answers every connection until the server is closed. Raises OSError and UserError where there
    can be no socket.

    The caller holds the lock of the home, so a socket that is already there belonged to a process
    that has ended.
    """

    # Seconds of CPU: a process that ends between two looks must not make the counter go back
    most = 0.0

    async def reply(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most
        try:
            if used := await asyncio.to_thread(process_usage):
                used["cpu_seconds"] = most = max(most, used["cpu_seconds"])
            writer.write(json.dumps({**await answer(), "used": used}).encode())
            await writer.drain()
        except OSError:  # the caller did not wait
            pass
        finally:
            writer.close()

    path = socket_path(home)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)  # before it listens: until then nobody can connect
        return await asyncio.start_unix_server(reply, sock=listener)
    except OSError:
        listener.close()
        raise


def process_usage() -> dict[str, float]:
    """Seconds of CPU and bytes of memory of this process and all below it, and bytes of a GPU that
    this one holds. Empty in a confined process, such as a bootstrap node, which may look at no
    process.
    """
    used = {"cpu_seconds": 0.0, "memory_bytes": 0.0}
    try:
        tree = (psutil.Process(), *psutil.Process().children(recursive=True))
    except (OSError, psutil.Error):
        return {}
    for process in tree:
        with suppress(psutil.Error):  # the process has ended
            # With those of its children that have ended
            used["cpu_seconds"] += sum(process.cpu_times()[:4])
            used["memory_bytes"] += process.memory_info().rss
    # Another thread may still be importing torch
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        used["gpu_bytes"] = float(cuda.memory_reserved())
    return used


def ask(home: Path) -> dict[str, Any] | None:
    """What the node of this home says; None where no node answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        ends = time.monotonic() + ANSWER_SECONDS
        try:
            connection.connect(os.fspath(socket_path(home)))
            data = bytearray()
            while chunk := connection.recv(1024 * 1024):
                data += chunk
                connection.settimeout(max(0.01, ends - time.monotonic()))
                if len(data) > MAX_ANSWER_BYTES:
                    return None
            answer = parse_json(bytes(data))
        except (OSError, ValueError):
            return None
    return answer if isinstance(answer, dict) else None
