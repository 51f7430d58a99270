"""How a Linux process gives up rights for good, for itself and for all processes that it starts
from then on.

Landlock takes the file system, except the paths that a process names (Linux 5.13, landlock(7)). No
library has its calls: they go through libc's `syscall`. It binds the calling thread, so a process
uses it before it has a second one.

seccomp takes system calls, by filters for x86-64 and arm64 as classic BPF programs (seccomp(2),
linux/filter.h). Two modules choose the calls: scoring/sandbox.py allows the few that scoring
answers needs, network/confinement.py refuses those that talking to strangers does not need. Written
with ctypes, since pyseccomp needs libseccomp.so, which slim images do not have, and bubblewrap
needs user namespaces, which containers deny.

Capabilities are what root may do beyond other users (capabilities(7)). A process that gives them up
gets none back by starting a program either, where it has also called `no_new_privileges`.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, MAKE_SOCK = 1 << 7, 1 << 8, 1 << 9
REFER, TRUNCATE = 1 << 13, 1 << 14  # from versions 2 and 3 on

READ = READ_FILE | READ_DIR
RUN = READ_FILE | EXECUTE
# A folder
OWN = (
    READ
    | WRITE_FILE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | REFER
    | TRUNCATE
)
# What a rule for anything but a folder may grant
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_GET_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
# The version (Linux 6.12) that keeps signals and abstract sockets within the restricted processes
SIGNALS_SINCE = 6

# Capabilities, as bits of a set: to write and to read what permissions refuse, ports below 1024
DAC_OVERRIDE, DAC_READ_SEARCH, NET_BIND_SERVICE = 1 << 1, 1 << 2, 1 << 10
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT = 24, 47
_AMBIENT_RAISE, _AMBIENT_CLEAR_ALL = 2, 4
# _LINUX_CAPABILITY_VERSION_3: two words of 32 bits for each set
_CAPABILITY_VERSION, _CAPABILITY_BITS = 0x20080522, 64

# AUDIT_ARCH_* by platform.machine()
AUDIT: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

KILL, ALLOW, REFUSE = 0x80000000, 0x7FFF0000, 0x00050000 | errno.EPERM  # SECCOMP_RET_*
# What a kernel without the call returns: libraries then use an older call
UNKNOWN = 0x00050000 | errno.ENOSYS
# BPF_LD|W|ABS, BPF_JMP|JEQ|K, ...
LOAD, EQUAL, GREATER, ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
AND = 0x54  # BPF_ALU|AND|K
# Offsets in struct seccomp_data, in bytes; each argument has 8, low half first
NUMBER, ARCH, ARGUMENTS = 0, 4, 16

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
TO_ALLOW, TO_REFUSE = (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)


def landlock() -> int:
    """The version of the kernel's Landlock; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    found: int = _libc().syscall(_CREATE_RULESET, None, 0, _GET_VERSION)
    return max(0, found)


def ruleset(allowed: Mapping[Path, int], tcp: bool) -> int:
    """A descriptor of rules that refuse every right this kernel knows, except those of `allowed`,
    each for a path and all below it; paths that do not exist are skipped. `tcp`: whether ports may
    be listened on and connected to. -1 where there is no Landlock. Raises OSError.
    """
    known = landlock()
    if known < 1:
        return -1
    rights_on_files = {1: 13, 2: 14, 3: 15, 4: 15}.get(known, 16)  # how many this kernel knows
    files = (1 << rights_on_files) - 1
    network = 0b11 if known >= 4 and not tcp else 0
    scoped = 0b11 if known >= SIGNALS_SINCE else 0  # abstract Unix sockets, signals
    size = 24  # bytes: a kernel takes no field that it does not know
    if known < SIGNALS_SINCE:
        size = 16
    if known < 4:
        size = 8
    attributes = struct.pack("QQQ", files, network, scoped)[:size]
    rules = _checked(
        _libc().syscall(_CREATE_RULESET, attributes, len(attributes), 0), "landlock_create_ruleset"
    )
    for path, rights in allowed.items():
        with suppress(FileNotFoundError, NotADirectoryError):
            _allow(rules, path, rights & files)
    return rules


def restrict(rules: int) -> None:
    """Bind this thread to `rules`, a descriptor of `ruleset`. Needs `no_new_privileges` before.
    Raises OSError.
    """
    _checked(_libc().syscall(_RESTRICT_SELF, rules, 0), "landlock_restrict_self")


def no_new_privileges() -> None:
    """From now on no set-uid program gives this process more rights. Linux only. Raises OSError."""
    _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def effective_capabilities() -> int:
    """The capabilities that this thread can use now, as bits. Raises OSError."""
    return _capabilities()[0]


def keep_capabilities(wanted: int) -> None:
    """Gives up every capability but those of `wanted`, for good: in all five sets of this thread,
    and so of what it starts from then on. Needs `no_new_privileges` before. Raises OSError.
    """
    for number in range(_CAPABILITY_BITS):
        # Fails beyond the last one, and for a process that could give up nothing else either: then
        # no_new_privs alone keeps a program from getting more
        if not wanted >> number & 1 and _libc().prctl(_PR_CAPBSET_DROP, number, 0, 0, 0):
            break
    # Fails before Linux 4.3, which has no such set
    _libc().prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    kept = _capabilities()[1] & wanted
    _set_capabilities(kept, kept, kept)
    for number in range(_CAPABILITY_BITS):
        # A program that is started by anyone but root has only those
        if kept >> number & 1:
            _libc().prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, number, 0, 0)


@contextmanager
def without_capabilities(lowered: int) -> Iterator[None]:
    """Takes the capabilities of `lowered` away from this thread while the context lasts. Raises
    OSError.
    """
    effective, permitted, inheritable = _capabilities()
    _set_capabilities(effective & ~lowered, permitted, inheritable)
    try:
        yield
    finally:
        _set_capabilities(effective, permitted, inheritable)


def _capabilities() -> tuple[int, int, int]:
    """The sets of this thread: effective, permitted, inheritable."""
    # Both are written to
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    data = ctypes.create_string_buffer(24)
    _checked(_libc().capget(header, data), "capget")
    words = struct.unpack("=6I", data.raw)
    effective, permitted, inheritable = (words[k] | words[k + 3] << 32 for k in range(3))
    return effective, permitted, inheritable


def _set_capabilities(effective: int, permitted: int, inheritable: int) -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    sets = (effective, permitted, inheritable)
    low = [capabilities & 0xFFFFFFFF for capabilities in sets]
    high = [capabilities >> 32 for capabilities in sets]
    _checked(_libc().capset(header, struct.pack("=6I", *low, *high)), "capset")


def _allow(rules: int, path: Path, rights: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not path.is_dir():
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, opened)  # struct landlock_path_beneath_attr is packed
        _checked(
            _libc().syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0), f"landlock_add_rule {path}"
        )
    finally:
        os.close(opened)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def beginning(audit: int) -> list[Instruction]:
    """Instructions that end a process that makes calls of another architecture, and then load the
    call's number.
    """
    return [(LOAD, 0, 0, ARCH), (EQUAL, 1, 0, audit), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]


def argument(index: int) -> Instruction:
    """Loads the low half of an argument of the call, counted from 0."""
    return (LOAD, 0, 0, ARGUMENTS + 8 * index)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class Filter:
    """A program as the kernel takes it. Made once; `install` binds the calling thread, and what it
    starts, for good.
    """

    def __init__(self, code: Sequence[Instruction]) -> None:
        packed = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
        # Kept: the structure below points into it
        self._buffer = ctypes.create_string_buffer(packed, len(packed))
        self._program = _Program(len(code), ctypes.addressof(self._buffer))

    def install(self) -> None:
        """Needs no_new_privs. Raises OSError where the kernel has no seccomp."""
        program = ctypes.byref(self._program)
        _checked(_libc().prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0), "seccomp")


def filter_here(program: Callable[[str], Sequence[Instruction]]) -> Filter | None:
    """The filter that `program` gives for this `platform.machine()`; None on a system that has no
    such filters.
    """
    known = sys.platform == "linux" and platform.machine() in AUDIT and sys.maxsize > 2**32
    return Filter(program(platform.machine())) if known else None
