"""Which system calls a process that scores answers may make: a seccomp filter for x86-64 and arm64 Linux.

A handful for memory, clocks, signals and leaving; `write` to descriptors 0 to 3 only, no executable memory. Everything
else fails with EPERM, so that library code sees an ordinary OSError; another architecture's calls end the process.
"""

from collections.abc import Mapping
from typing import NamedTuple

from swarm_node.common.seccomp import (
    ALLOW,
    ANY_BIT,
    AUDIT,
    EQUAL,
    GREATER,
    REFUSE,
    RETURN,
    Instruction,
    argument,
    beginning,
)

LAST_WRITABLE = 3  # descriptors: the three standard streams, which are /dev/null, and the pipe for results


class Architecture(NamedTuple):
    """What a filter has to know of a processor."""

    audit: int  # AUDIT_ARCH_* of linux/audit.h
    numbers: Mapping[str, int]  # of the system calls that are allowed


# By platform.machine(); numbers from asm/unistd_64.h and asm-generic/unistd.h.
ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture(
        AUDIT["x86_64"],
        {
            "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11,
            "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sched_yield": 24, "mremap": 25,
            "madvise": 28, "getpid": 39, "exit": 60, "gettimeofday": 96, "getrusage": 98, "times": 100,
            "sigaltstack": 131, "gettid": 186, "futex": 202, "restart_syscall": 219, "clock_gettime": 228,
            "exit_group": 231, "getrandom": 318, "membarrier": 324, "rseq": 334,
        },
    ),
    "aarch64": Architecture(
        AUDIT["aarch64"],
        {
            "close": 57, "lseek": 62, "read": 63, "write": 64, "fstat": 80, "exit": 93, "exit_group": 94, "futex": 98,
            "clock_gettime": 113, "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132, "rt_sigaction": 134,
            "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153, "getrusage": 165, "gettimeofday": 169,
            "getpid": 172, "gettid": 178, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226,
            "madvise": 233, "getrandom": 278, "membarrier": 283, "rseq": 293,
        },
    ),
}  # fmt: skip

PROT_EXEC = 4


def program(architecture: Architecture) -> list[Instruction]:
    """The filter. Whoever changes it reads tests/core/scoring/test_seccomp.py, which interprets it."""
    numbers = dict(architecture.numbers)
    code = beginning(architecture.audit)
    code += _unless(numbers.pop("write"), 0, (GREATER, 0, 1, LAST_WRITABLE))
    for name in ("mmap", "mprotect"):
        code += _unless(numbers.pop(name), 2, (ANY_BIT, 0, 1, PROT_EXEC))
    for number in numbers.values():
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    code.append((RETURN, 0, 0, REFUSE))
    return code


def _unless(number: int, index: int, refused: Instruction) -> list[Instruction]:
    """Allow this call unless the test `refused` of one of its arguments is true."""
    return [(EQUAL, 0, 4, number), argument(index), refused, (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
