"""Processes that this one starts and speaks with, and the variables of the user's environment that
they get: never the user's tokens, keys and proxies.

`clean_environment` is for processes that read what strangers send or wrote, and for those that need
no variables; `without_secrets` is for those that compute, which need what the user has set for
CUDA, caches and threads.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from swarm_node.common.awake import AwakeClock, step_of
from swarm_node.common.errors import TemporaryError
from swarm_node.common.files import open_to_write

if TYPE_CHECKING:
    import asyncio

Process = subprocess.Popen[bytes]

STARTS = 3  # a child that a signal ends while it starts is started so often

# Libraries that the interpreter may need; the folder for sockets
KEPT_VARIABLES = ("LD_LIBRARY_PATH", "TMPDIR")
# For programs that print for a person
OF_THE_USER = (*KEPT_VARIABLES, "PATH", "HOME", "LANG", "LC_ALL", "TZ")
SECRET = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|_?KEY$|_KEY_|AUTH|PROXY$|^(AWS|AZURE|GOOGLE|WANDB|KAGGLE)_",
    re.I,
)


def clean_environment(
    kept: tuple[str, ...] = KEPT_VARIABLES, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of `kept` that are set, PYTHONUTF8=1, and `more`."""
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment["PYTHONUTF8"] = "1"
    environment.update(more or {})
    return environment


def without_secrets(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """All variables but those whose names say that they hold a secret, and `more`."""
    plain = {name: value for name, value in os.environ.items() if not SECRET.search(name)}
    plain.update(more or {})
    return plain


def usable_cores() -> int:
    """Cores this process may run on, which in a container can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start(
    command: Sequence[str],
    log: Path | None,
    environment: Mapping[str, str],
    passed: Sequence[int] = (),
    append: bool = False,
) -> tuple[Process, socket.socket]:
    """A new process and the socket to it. Its own end is the last argument of the command: see
    channel.inherited.

    `log` takes what the process prints, if that file can be written; with None it prints where this
    process does. It inherits the descriptors `passed`, and has a group of its own, since Ctrl-C is
    for its parent. Raises OSError where it cannot be started.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs, _output(log, append) as output:
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


def end_with_family() -> NoReturn:
    """Ends this process at once, and what it has started where it leads a group, as `start` sees to
    it. For a child whose parent has gone.
    """
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


async def start_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    passed: Sequence[int],
    enter: Callable[[], object],
) -> "asyncio.subprocess.Process":
    """Starts a program of others, without input; asyncio reads its output. `enter` confines it, in
    the new process: it imports nothing and takes no lock, so that threads do not matter. Raises
    OSError, SubprocessError.
    """
    # Now: a scoring process imports this module, and the less it has loaded, the faster it forks
    import asyncio

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


class ChildKilled(TemporaryError):
    """A signal ended a child process that was to start, each time. That is nobody's mistake: mostly
    the system was short of memory, which may pass.
    """

    def __init__(self, what: str, code: int) -> None:
        advice = (
            "free memory, or give this machine more" if -code == signal.SIGKILL else "see its log"
        )
        self.code = code  # of its end, below 0
        super().__init__(f"{what} {ending(code)}: {advice}, and start again")


def run_within(
    seconds: float, command: Sequence[str], given: str | None = None, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Runs a program whose input and output are text, as subprocess.run does. Its timeout does not
    count the time in which this machine slept. `given`: its input. Any exit code is returned.
    Raises subprocess.TimeoutExpired, and OSError where the program cannot be started.
    """
    step = step_of(seconds)
    awake = AwakeClock(step=step)
    ends = awake() + seconds
    pipe = subprocess.PIPE
    stdin = subprocess.DEVNULL if given is None else pipe
    with subprocess.Popen(
        command, stdin=stdin, stdout=pipe, stderr=pipe, text=True, **options
    ) as process:
        try:
            while (left := ends - awake()) > 0:
                try:
                    out, err = process.communicate(given, timeout=min(step, left))
                except subprocess.TimeoutExpired:
                    given = None  # it is being written already
                else:
                    return subprocess.CompletedProcess(command, process.returncode, out, err)
            raise subprocess.TimeoutExpired(command, seconds)
        except BaseException:  # also Ctrl-C: else the end of `with` would wait for the program
            process.kill()
            raise


def ran(what: str, run: Callable[[], "subprocess.CompletedProcess[Any]"]) -> Any:
    """The process that `run` ran to its end. It is run again where a signal ended it. ChildKilled
    where that happens each time; `what` names it.
    """
    for _ in range(STARTS):
        if (done := run()).returncode >= 0:
            return done
    raise ChildKilled(what, done.returncode)


def said_by(module: str) -> Any:
    """What a module of ours, run in a process that ends at once, prints as JSON. ChildKilled."""
    command = [sys.executable, "-s", "-P", "-m", module]

    def run() -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(command, capture_output=True, check=False, env=clean_environment())

    done = ran(f"the process {module}", run)
    done.check_returncode()
    return json.loads(done.stdout)


def ending(code: int) -> str:
    """How a process with this exit status ended."""
    if code >= 0:
        return f"ended with status {code}"
    hint = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
    known = -code in signal.Signals.__members__.values()
    return f"was killed by {signal.Signals(-code).name if known else f'signal {-code}'}{hint}"


def _output(path: Path | None, append: bool) -> AbstractContextManager[BinaryIO | None]:
    if path is None:
        return nullcontext()
    try:
        return open_to_write(path, append=append)
    except OSError:
        return open(os.devnull, "wb")
