"""A seccomp filter, interpreted as the kernel does, for each architecture: a machine runs only one
of them.

Run as a child, `python -m tests.bpf network|scoring` puts the filter of this machine on itself,
makes every call that the filter refuses, without arguments, and prints what each returned, as JSON:
number -> name of the error, or "done". With `i386` behind it, it makes one call of that
architecture, with `free` in front of that before the filter is on.
"""

import ctypes
import errno
import json
import mmap
import platform
import sys
from collections.abc import Callable, Mapping, Sequence

from swarm_node.common import linux
from swarm_node.common.linux import (
    AND,
    ANY_BIT,
    ARCH,
    ARGUMENTS,
    AUDIT,
    EQUAL,
    GREATER,
    LOAD,
    NUMBER,
    REFUSE,
    RETURN,
    UNKNOWN,
)
from swarm_node.network import confinement
from swarm_node.scoring import sandbox

Program = Callable[[str], Sequence[linux.Instruction]]
PROGRAMS: Mapping[str, Program] = {"network": confinement.program, "scoring": sandbox.program}
# Linux has no calls near the last of them
NUMBERS = range(1024)
X32 = 1 << 30
# uretprobe and uprobe of x86-64: Linux 6.14 asks no filter for them, and ends a process that makes
# them by itself
UNASKED = {335, 336}
# AUDIT_ARCH_* of linux/audit.h, besides those that have a filter
OTHERS = {
    "i386": 0x40000003, "arm": 0x40000028, "armeb": 0x28, "riscv32": 0x400000F3,
    "riscv64": 0xC00000F3, "ppc": 0x14, "ppc64": 0x80000015, "ppc64le": 0xC0000015,
    "s390": 0x16, "s390x": 0x80000016, "mips": 0x8, "mipsel": 0x40000008, "mips64": 0x80000008,
    "mipsel64": 0xC0000008, "loongarch64": 0xC0000102, "sparc64": 0x8000002B, "none": 0,
}  # fmt: skip


def decide(
    program: Program, machine: str, number: int, *arguments: int, audit: int | None = None
) -> int:
    """What the filter returns for a call."""
    data = {NUMBER: number, ARCH: AUDIT[machine] if audit is None else audit}
    data |= dict.fromkeys(range(ARGUMENTS, ARGUMENTS + 48, 8), 0)
    data |= {ARGUMENTS + 8 * k: value & 0xFFFFFFFF for k, value in enumerate(arguments)}
    code, position, accumulator = program(machine), 0, 0
    while True:
        operation, if_true, if_false, operand = code[position]
        position += 1
        if operation == RETURN:
            return operand
        if operation == LOAD:
            accumulator = data[operand]
        elif operation == AND:
            accumulator &= operand
        else:
            test = {
                EQUAL: accumulator == operand,
                GREATER: accumulator > operand,
                ANY_BIT: bool(accumulator & operand),
            }
            position += if_true if test[operation] else if_false


def refused(program: Program, machine: str) -> dict[int, str]:
    """The calls without arguments that the filter refuses, by number, those of x32 too, and the
    error of each.
    """
    asked = [number for number in NUMBERS if number not in UNASKED]
    numbers = [*asked, *(X32 + number for number in NUMBERS)]
    verdicts = {number: decide(program, machine, number) for number in numbers}
    names = {REFUSE: "EPERM", UNKNOWN: "ENOSYS"}
    return {number: names[found] for number, found in verdicts.items() if found in names}


def main() -> None:
    which, *words = sys.argv[1:]
    machine, program = platform.machine(), PROGRAMS[which]
    libc = ctypes.CDLL(None, use_errno=True)
    call_of_i386 = i386() if "i386" in words else None
    numbers = sorted(refused(program, machine))
    installed = linux.filter_here(program)
    assert installed is not None
    if "free" not in words:
        linux.no_new_privileges()
        installed.install()
    if call_of_i386 is not None:
        call_of_i386(20)  # getpid
        return
    said = {}
    for number in numbers:
        ctypes.set_errno(0)
        done = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
        said[number] = errno.errorcode[ctypes.get_errno()] if done < 0 else "done"
    sys.stdout.write(json.dumps(said))
    sys.stdout.flush()


def i386() -> Callable[[int], int]:
    """Makes a call of i386 by `int 0x80`: mov eax, edi; int 0x80; ret."""
    held = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    held.write(b"\x89\xf8\xcd\x80\xc3")
    where = ctypes.addressof(ctypes.c_char.from_buffer(held))
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(where)
    return lambda number: function(number) if held else 0


if __name__ == "__main__":
    main()
