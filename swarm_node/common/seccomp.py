"""Filters of system calls for x86-64 and arm64 Linux, as classic BPF programs: how they are put together and installed.

What to allow is said where it is needed: scoring/sandbox.py names the few calls of a process that scores
answers, network/confinement.py refuses what nobody who talks to strangers needs. Written with ctypes, since pyseccomp
needs libseccomp.so, which slim images do not have, and bubblewrap needs user namespaces, which containers deny. See
seccomp(2) and linux/filter.h.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Mapping, Sequence

AUDIT: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_* by platform.machine()

KILL, ALLOW, REFUSE = 0x80000000, 0x7FFF0000, 0x00050000 | errno.EPERM  # SECCOMP_RET_*
UNKNOWN = 0x00050000 | errno.ENOSYS  # as a kernel that does not have the call: libraries then use an older one
LOAD, EQUAL, GREATER, ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, ...
AND = 0x54  # BPF_ALU|AND|K
NUMBER, ARCH, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data, in bytes; each argument has 8, low half first

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
TO_ALLOW, TO_REFUSE = (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)


def beginning(audit: int) -> list[Instruction]:
    """Ends a process that makes calls of another architecture; after it the number of the call is loaded."""
    return [(LOAD, 0, 0, ARCH), (EQUAL, 1, 0, audit), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]


def argument(index: int) -> Instruction:
    """Loads the low half of an argument of the call, counted from 0."""
    return (LOAD, 0, 0, ARGUMENTS + 8 * index)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class Filter:
    """A program as the kernel takes it. Made once; `install` binds the calling thread, and what it starts, for good."""

    def __init__(self, code: Sequence[Instruction]) -> None:
        packed = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
        self._buffer = ctypes.create_string_buffer(packed, len(packed))  # kept: the structure below points into it
        self._program = _Program(len(code), ctypes.addressof(self._buffer))
        self._libc = ctypes.CDLL(None, use_errno=True)

    def install(self) -> None:
        """Needs no_new_privs. Raises OSError where the kernel has no seccomp."""
        if self._libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(self._program), 0, 0):
            raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def filter_here(program: Callable[[str], Sequence[Instruction]]) -> Filter | None:
    """Of what `program` says for the `platform.machine()` that this is; None for a system that has no such filters."""
    known = sys.platform == "linux" and platform.machine() in AUDIT and sys.maxsize > 2**32
    return Filter(program(platform.machine())) if known else None
