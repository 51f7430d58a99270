"""What a process that scores answers takes away from itself, for good, before it looks at the first
one.

Layers, each where the system has it; none needs root, capabilities or user namespaces, so a default
container will do:

    rlimits       memory, CPU time, no file, no descriptor beyond those open, no core dump; no
                  child, except for root
    pdeathsig     Linux: it dies with the scoring process, however that dies
    no_new_privs  Linux: no set-uid program helps it
    seccomp       Linux on x86-64 and arm64: a few system calls for memory, clocks and leaving; see
                  `program`
    landlock      Linux 5.13: no file and no directory; 6.7: no TCP port; 6.12: no abstract socket,
                  no signal to others

macOS has the first only: an answer that runs code there can open nothing and start nothing, but it
can signal other processes of the same user. Where seccomp is missing, use only data sets whose
scorer is our own.

What it does NOT protect against:
- Scores of answers that share a child, if one of them runs code. Where the scorer is the library's,
  or ours and uses a parser, these are of one author and round, who could have forged the others in
  the same way. Where all scorers are plain (`server.cohort`), they are the up to 16 groups of one
  call, of any authors: to forge a neighbour's score takes a bug in Python's own string or number
  code that runs code of an answer's choosing. No call mixes a node's local completions with those
  of others.
- Reading what the scoring process had in memory when it forked: the library, and keys of questions
  asked lately. Nothing else is there (no identity, no environment, no answers but those that share
  the child), and nothing but scores gets out. Timing tells little.
- A scorer that scores a wrong answer as right without running code. `scorers.py` and the catalogue
  prevent that.
- Bugs of the kernel behind the few calls that remain, side channels between cores, and other code
  of the same user, which may ptrace the scoring process from outside.
- Use of the CPU and memory it is allowed: `time_limit` per group, `memory_limit` in all. An author
  who wastes them is charged by the skip reasons "scoring timeout" and "scoring crashed".
- Building the question. That runs before, in the scoring process, which has limits but reads the
  library's files. A peer can choose only data set, configuration and index, and by its key and
  round number the seed.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial

from swarm_node.common import linux
from swarm_node.common.children import said_by

DESCRIPTORS = 64  # far more than a scoring process has open
LAYERS = ("rlimits", "pdeathsig", "no_new_privs", "seccomp", "landlock")

_PR_SET_PDEATHSIG = 1
# Descriptors: the three standard streams, which are /dev/null, and the pipe for results
LAST_WRITABLE = 3
PROT_EXEC = 4

# Calls that are allowed, by platform.machine(); numbers from asm/unistd_64.h and
# asm-generic/unistd.h.
ALLOWED: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10,
        "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
        "sched_yield": 24, "mremap": 25, "madvise": 28, "getpid": 39, "exit": 60,
        "gettimeofday": 96, "getrusage": 98, "times": 100, "sigaltstack": 131, "gettid": 186,
        "futex": 202, "restart_syscall": 219, "clock_gettime": 228, "exit_group": 231,
        "getrandom": 318, "membarrier": 324, "rseq": 334,
    },
    "aarch64": {
        "close": 57, "lseek": 62, "read": 63, "write": 64, "fstat": 80, "exit": 93,
        "exit_group": 94, "futex": 98, "clock_gettime": 113, "sched_yield": 124,
        "restart_syscall": 128, "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135,
        "rt_sigreturn": 139, "times": 153, "getrusage": 165, "gettimeofday": 169, "getpid": 172,
        "gettid": 178, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226,
        "madvise": 233, "getrandom": 278, "membarrier": 283, "rseq": 293,
    },
}  # fmt: skip


def program(machine: str) -> list[linux.Instruction]:
    """The filter: a handful of calls for memory, clocks, signals and leaving; `write` to
    descriptors 0 to 3 only, no executable memory. All else fails with EPERM, so that library code
    sees an ordinary OSError; another architecture's calls end the process. Before changing the
    filter, read tests/core/scoring/test_seccomp.py, which interprets it.
    """
    numbers = dict(ALLOWED[machine])
    code = linux.beginning(linux.AUDIT[machine])
    code += _unless(numbers.pop("write"), 0, (linux.GREATER, 0, 1, LAST_WRITABLE))
    for name in ("mmap", "mprotect"):
        code += _unless(numbers.pop(name), 2, (linux.ANY_BIT, 0, 1, PROT_EXEC))
    for number in numbers.values():
        code += [(linux.EQUAL, 0, 1, number), linux.TO_ALLOW]
    return [*code, linux.TO_REFUSE]


def _unless(number: int, index: int, refused: linux.Instruction) -> list[linux.Instruction]:
    """Allow this call unless the test `refused` of one of its arguments is true."""
    is_the_call: linux.Instruction = (linux.EQUAL, 0, 4, number)
    return [is_the_call, linux.argument(index), refused, linux.TO_REFUSE, linux.TO_ALLOW]


def layers() -> dict[str, bool]:
    """Which layers hold here, tried in a process of their own: a node has threads and must not
    fork.
    """
    found: dict[str, bool] = said_by("swarm_node.scoring.sandbox")
    return found


def describe(found: dict[str, bool]) -> str:
    """One line for a user: what holds and what is missing."""
    missing = [name for name, held in found.items() if not held]
    text = f"scoring sandbox: {', '.join(name for name, held in found.items() if held)}"
    return f"{text}; not on this system: {', '.join(missing)}" if missing else text


class Sandbox:
    """Prepared once in the scoring process, entered in each child."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        steps: dict[str, Callable[[], None]] = {"rlimits": _limit}
        if sys.platform == "linux":
            steps |= {"pdeathsig": self.die_with_parent, "no_new_privs": linux.no_new_privileges}
        if (ruleset := _deny_everything()) >= 0:
            steps["landlock"] = partial(linux.restrict, ruleset)
        if found := linux.filter_here(program):
            steps["seccomp"] = found.install
        self._steps = {name: step for name, step in steps.items() if self._works(name, step)}

    @property
    def layers(self) -> dict[str, bool]:
        return {name: name in self._steps for name in LAYERS}

    def enter(self, parent: int, cpu_seconds: int) -> None:
        """Binds this process, a child of `parent`. Raises OSError if it cannot: then nothing must
        be scored.
        """
        # A lower hard limit was set from outside: it holds anyway
        with contextlib.suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
        for name, step in self._steps.items():
            if name != "seccomp":
                step()
        if os.getppid() != parent:
            raise OSError("the scoring process died before its child could ask to die with it")
        os.closerange(LAST_WRITABLE + 1, DESCRIPTORS)
        if "seccomp" in self._steps:  # last: it forbids calls that the other steps need
            self._steps["seccomp"]()

    def _works(self, name: str, step: Callable[[], None]) -> bool:
        """Whether this step succeeds: tried in a child, since no step can be undone."""
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                if name in ("seccomp", "landlock"):
                    linux.no_new_privileges()
                step()
                os._exit(0)
            os._exit(1)
        return os.waitpid(pid, 0)[1] == 0

    def die_with_parent(self) -> None:
        """On Linux only. Elsewhere an orphan ends at its CPU limit, or when the other end of its
        pipe closes.
        """
        if sys.platform == "linux":
            failed = self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if failed:
                raise OSError(ctypes.get_errno(), "pdeathsig")


def _deny_everything() -> int:
    """A Landlock ruleset that allows no access at all; -1 without Landlock."""
    try:
        ruleset = linux.ruleset({}, tcp=False)
    except OSError:
        return -1
    if ruleset < 0:
        return -1
    # A child puts its pipe at a low number
    high = fcntl.fcntl(ruleset, fcntl.F_DUPFD_CLOEXEC, DESCRIPTORS // 2)
    os.close(ruleset)
    return high


def _limit() -> None:
    for what in (
        resource.RLIMIT_CORE,
        resource.RLIMIT_FSIZE,
        resource.RLIMIT_NOFILE,
        resource.RLIMIT_NPROC,
    ):
        resource.setrlimit(what, (0, 0))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(Sandbox().layers))
