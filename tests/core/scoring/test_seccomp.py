"""The filter, interpreted here as the kernel would, for both architectures: a machine runs only one
of them.
"""

import re
from pathlib import Path

import pytest

from swarm_node.common.linux import (
    ALLOW,
    ANY_BIT,
    ARCH,
    ARGUMENTS,
    AUDIT,
    EQUAL,
    GREATER,
    KILL,
    LOAD,
    NUMBER,
    REFUSE,
    RETURN,
)
from swarm_node.scoring.sandbox import ALLOWED, program

HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}
DANGEROUS = {  # x86-64, arm64
    "execve": (59, 221), "clone": (56, 220), "clone3": (435, 435), "socket": (41, 198),
    "openat": (257, 56), "kill": (62, 129), "tgkill": (234, 131), "ptrace": (101, 117),
    "process_vm_writev": (311, 271), "io_uring_setup": (425, 425), "prctl": (157, 167),
    "ioctl": (16, 29), "dup3": (292, 24), "setrlimit": (160, 164), "memfd_create": (319, 279),
}  # fmt: skip


def decide(machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the filter returns for a call."""
    data = {NUMBER: number, ARCH: AUDIT[machine] if audit is None else audit}
    data |= {ARGUMENTS + 8 * k: value & 0xFFFFFFFF for k, value in enumerate(arguments)}
    code, position, accumulator = program(machine), 0, 0
    while True:
        operation, if_true, if_false, operand = code[position]
        position += 1
        if operation == RETURN:
            return operand
        if operation == LOAD:
            accumulator = data[operand]
        else:
            test = {
                EQUAL: accumulator == operand,
                GREATER: accumulator > operand,
                ANY_BIT: bool(accumulator & operand),
            }
            position += if_true if test[operation] else if_false


@pytest.mark.parametrize("machine", ALLOWED)
def test_the_filter_allows_what_it_names_and_nothing_else(machine: str) -> None:
    numbers = ALLOWED[machine]
    allowed = {number for number in range(600) if decide(machine, number, 1, 0, 0) == ALLOW}
    assert allowed == set(numbers.values())
    assert not allowed & {pair[list(ALLOWED).index(machine)] for pair in DANGEROUS.values()}
    assert decide(machine, 0x40000000 + numbers["write"], 1) == REFUSE, "x32 calls are others"


@pytest.mark.parametrize("machine", ALLOWED)
def test_arguments_matter(machine: str) -> None:
    numbers = ALLOWED[machine]
    assert [decide(machine, numbers["write"], fd) == ALLOW for fd in (0, 1, 2, 3, 4, 5, -1)] == [
        True
    ] * 4 + [False] * 3
    for name in ("mmap", "mprotect"):
        assert decide(machine, numbers[name], 0, 4096, 3) == ALLOW
        assert (
            decide(machine, numbers[name], 0, 4096, 4)
            == decide(machine, numbers[name], 0, 4096, 7)
            == REFUSE
        )


@pytest.mark.parametrize("machine", ALLOWED)
def test_calls_of_another_architecture_end_the_process(machine: str) -> None:
    assert decide(machine, 1, 1, audit=0x40000003) == KILL  # i386


@pytest.mark.parametrize("machine", ALLOWED)
def test_the_numbers_are_the_kernel_s(machine: str) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip("no kernel headers here")
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    numbers = ALLOWED[machine]
    assert {name: known.get(name) for name in numbers} == {
        name: str(number) for name, number in numbers.items()
    }
