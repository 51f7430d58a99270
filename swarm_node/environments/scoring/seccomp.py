"""Which system calls a process that scores answers may make: a seccomp filter for x86-64 and arm64 Linux.

A handful for memory, clocks, signals and leaving; `write` to descriptors 0 to 3 only, no executable memory. Everything
else fails with EPERM, so that library code sees an ordinary OSError; another architecture's calls end the process.
Written with ctypes, since pyseccomp needs libseccomp.so, which slim images do not have. See seccomp(2), and
linux/filter.h for the classic BPF it is made of.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Mapping
from typing import NamedTuple

LAST_WRITABLE = 3  # descriptors: the three standard streams, which are /dev/null, and the pipe for results


class Architecture(NamedTuple):
    """What a filter has to know of a processor."""

    audit: int  # AUDIT_ARCH_* of linux/audit.h
    numbers: Mapping[str, int]  # of the system calls that are allowed


# By platform.machine(); numbers from asm/unistd_64.h and asm-generic/unistd.h.
ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture(
        0xC000003E,
        {
            "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11,
            "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sched_yield": 24, "mremap": 25,
            "madvise": 28, "getpid": 39, "exit": 60, "gettimeofday": 96, "getrusage": 98, "times": 100,
            "sigaltstack": 131, "gettid": 186, "futex": 202, "restart_syscall": 219, "clock_gettime": 228,
            "exit_group": 231, "getrandom": 318, "membarrier": 324, "rseq": 334,
        },
    ),
    "aarch64": Architecture(
        0xC00000B7,
        {
            "close": 57, "lseek": 62, "read": 63, "write": 64, "fstat": 80, "exit": 93, "exit_group": 94, "futex": 98,
            "clock_gettime": 113, "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132, "rt_sigaction": 134,
            "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153, "getrusage": 165, "gettimeofday": 169,
            "getpid": 172, "gettid": 178, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226,
            "madvise": 233, "getrandom": 278, "membarrier": 283, "rseq": 293,
        },
    ),
}  # fmt: skip

KILL, ALLOW, REFUSE = 0x80000000, 0x7FFF0000, 0x00050000 | errno.EPERM  # SECCOMP_RET_*
LOAD, EQUAL, GREATER, ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, ...
NUMBER, ARCH, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data, in bytes; each argument has 8, low half first
PROT_EXEC = 4

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


def program(architecture: Architecture) -> list[Instruction]:
    """The filter. Whoever changes it reads tests/unit/environments/test_seccomp.py, which interprets it."""
    numbers = dict(architecture.numbers)
    code: list[Instruction] = [(LOAD, 0, 0, ARCH), (EQUAL, 1, 0, architecture.audit), (RETURN, 0, 0, KILL)]
    code.append((LOAD, 0, 0, NUMBER))
    code += _unless(numbers.pop("write"), 0, (GREATER, 0, 1, LAST_WRITABLE))
    for name in ("mmap", "mprotect"):
        code += _unless(numbers.pop(name), 2, (ANY_BIT, 0, 1, PROT_EXEC))
    for number in numbers.values():
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    code.append((RETURN, 0, 0, REFUSE))
    return code


def _unless(number: int, argument: int, refused: Instruction) -> list[Instruction]:
    """Allow this call unless the test `refused` of one of its arguments is true."""
    return [
        (EQUAL, 0, 4, number),
        (LOAD, 0, 0, ARGUMENTS + 8 * argument),
        refused,
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class Filter:
    """The filter as the kernel takes it. Made once; `install` binds the calling process for good."""

    def __init__(self, architecture: Architecture) -> None:
        code = program(architecture)
        packed = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
        self._buffer = ctypes.create_string_buffer(packed, len(packed))  # kept: the structure below points into it
        self._program = _Program(len(code), ctypes.addressof(self._buffer))

    def install(self, libc: ctypes.CDLL) -> None:
        """Needs no_new_privs. Raises OSError where the kernel has no seccomp."""
        if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(self._program), 0, 0):
            raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
