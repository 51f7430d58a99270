"""Processes that this one starts and speaks with, and what they are told of the user's environment: never their tokens,
keys and proxies.

`clean_environment` is for processes that read what strangers send or wrote, and for those that need nothing;
`without_secrets` for those that compute, which need what the user has set for CUDA, caches and threads.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from swarm_node.common.files import open_to_write

if TYPE_CHECKING:
    import asyncio

Process = subprocess.Popen[bytes]

KEPT_VARIABLES = ("LD_LIBRARY_PATH", "TMPDIR")  # where the interpreter was linked against it; where sockets go
OF_THE_USER = (*KEPT_VARIABLES, "PATH", "HOME", "LANG", "LC_ALL", "TZ")  # for programs that print for a person
SECRET = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|_?KEY$|_KEY_|AUTH|PROXY$|^(AWS|AZURE|GOOGLE|WANDB|KAGGLE)_",
    re.I,
)


def clean_environment(kept: tuple[str, ...] = KEPT_VARIABLES, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of `kept` that are set, and `more`."""
    return {name: os.environ[name] for name in kept if name in os.environ} | {"PYTHONUTF8": "1", **(more or {})}


def without_secrets(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """All variables but those whose names say that they hold a secret, and `more`."""
    return {name: value for name, value in os.environ.items() if not SECRET.search(name)} | dict(more or {})


def usable_cores() -> int:
    """Cores this process may run on, which in a container can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start(
    command: Sequence[str], log: Path, environment: Mapping[str, str], passed: Sequence[int] = (), append: bool = False
) -> tuple[Process, socket.socket]:
    """A process and the socket to it, whose other end is the last argument of the command: see channel.inherited.

    `log` takes what it prints, if it can be written; `passed` are descriptors that it gets. It has a group of its own,
    as Ctrl-C is for its parent. Raises OSError where it cannot be started.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs, _writable(log, append) as output:
            process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                pass_fds=(theirs.fileno(), *passed),
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return process, ours


async def start_program(
    command: Sequence[str], environment: Mapping[str, str], passed: Sequence[int], enter: Callable[[], object]
) -> "asyncio.subprocess.Process":
    """A program of others, which has no input, and whose output is read by asyncio. `enter` confines it: it is called
    in the new process, imports nothing and takes no lock, so that threads do not matter. OSError, SubprocessError."""
    import asyncio  # now: a scoring process, which imports this module, is forked the sooner the less is in it

    return await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        pass_fds=passed,
        preexec_fn=enter,
        start_new_session=True,
    )


def said_by(module: str) -> Any:
    """What a module of ours prints as JSON, in a process that ends at once."""
    command = [sys.executable, "-s", "-P", "-m", module]
    return json.loads(subprocess.run(command, capture_output=True, check=True, env=clean_environment()).stdout)


def ending(code: int) -> str:
    """How a process with this exit status ended."""
    if code >= 0:
        return f"ended with status {code}"
    hint = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{hint}"


def _writable(path: Path, append: bool) -> BinaryIO:
    try:
        return open_to_write(path, append=append)
    except OSError:
        return open(os.devnull, "wb")
