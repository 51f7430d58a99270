"""Limits the scoring process puts on itself. It builds questions and holds the keys; it never looks
at an answer.

The children that do look at answers are confined by sandbox.py, on top of what they inherit from
here.
"""

import contextlib
import fcntl
import os
import resource
import select
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class OutOfTime(BaseException):
    """CPU time ran out. Not an Exception, so that question generators that catch those do not
    swallow it.
    """


def confine(memory_limit: int) -> None:
    """Limit this process and its children, for good, to `memory_limit` bytes of address space each,
    no file that grows, no core dump; and let the kernel end them before the node when memory runs
    out.
    """
    # Before the limits, as it writes a file; matplotlib without a home needs it
    with contextlib.suppress(OSError):
        tempfile.gettempdir()
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_AS: memory_limit,  # not enforced on macOS
    }
    for what, limit in limits.items():
        with contextlib.suppress(ValueError, OSError):  # already lower, or unknown to this system
            resource.setrlimit(what, (limit, limit))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # Linux
        file.write("1000")


def die_with(lifeline: int) -> None:
    """Let SIGIO end this process when the other end of this pipe closes, as it does however the
    node dies.

    Not PR_SET_PDEATHSIG: that signal comes when the *thread* that started this process ends,
    perhaps amid a batch.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGIO})
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    # Closed before the lines above: nothing is ever written to it
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(0)


def allow_cpu(seconds: float) -> None:
    """Let this process use `seconds` more of CPU time (rounded up), then end it by SIGXCPU.

    The node's own clock ends a scoring process that hangs; this limit holds where the node is
    stopped or gone.
    """
    until = int(time.process_time() + seconds) + 2
    # A lower hard limit is set from outside: it holds anyway
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))


@contextmanager
def cpu_budget(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the block once it has used so many seconds of CPU time. Wall time does not
    count, since a busy machine must not change which questions exist.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    signal.signal(signal.SIGPROF, stop)
    # Again, should a bare `except` swallow the first
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def silence() -> None:
    """Scorers may print (even raw escape bytes) or wait for input: give them /dev/null for all
    three streams.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)
