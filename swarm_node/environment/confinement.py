"""Limits a judge process puts on itself before it sees the first answer.

They stop accidents and simple attacks: memory, endless loops, files written, an orphan that lives on. They do NOT stop
an answer that manages to run code from reading files, opening sockets or spoiling later scores in the same process: no
scorer that executes answers is in the catalogue for that reason, and the full sandbox (a fresh child per message,
seccomp, Landlock) belongs on top of this.
"""

import contextlib
import fcntl
import os
import resource
import select
import signal
import time


def confine(memory_limit: int) -> None:
    """Limit this process, for good, to `memory_limit` bytes of address space, no files, no core dump, no child."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_AS, memory_limit)  # not enforced on macOS
    _limit(resource.RLIMIT_NPROC, 0)  # not enforced for root


def die_with(lifeline: int) -> None:
    """Be ended by SIGIO when the other end of this pipe closes, as it does when the node dies however it dies.

    Not PR_SET_PDEATHSIG: that one fires when the *thread* that started us ends, in the middle of somebody's batch.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGIO})
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # closed before the lines above: nothing is ever written to it
        os._exit(0)


def allow_cpu(seconds: float) -> None:
    """Let this process use `seconds` more of CPU time (rounded up), then end it by SIGXCPU.

    The node's own clock is what ends a slow item; this one holds where the node is stopped or gone.
    """
    until = int(time.process_time() + seconds) + 2
    with contextlib.suppress(ValueError, OSError):  # a lower hard limit is set from outside: it holds anyway
        resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))


def silence() -> None:
    """Scorers may print (even raw escape bytes) or wait for input: give them /dev/null for all three streams."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)


def _limit(what: int, value: int) -> None:
    with contextlib.suppress(ValueError, OSError):  # already lower, or unknown to this system
        resource.setrlimit(what, (value, value))
