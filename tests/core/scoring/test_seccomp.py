"""The filter, interpreted here as the kernel would, for both architectures: a machine runs only one
of them.
"""

import re
from functools import partial
from pathlib import Path

import pytest

from swarm_node.common.linux import ALLOW, AUDIT, KILL, REFUSE
from swarm_node.scoring.sandbox import ALLOWED, program
from tests import bpf

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


decide = partial(bpf.decide, program)


@pytest.mark.parametrize("machine", ALLOWED)
def test_the_filter_allows_what_it_names_and_nothing_else(machine: str) -> None:
    numbers = ALLOWED[machine]
    allowed = {number for number in bpf.NUMBERS if decide(machine, number, 1, 0, 0) == ALLOW}
    assert allowed == set(numbers.values())
    assert not allowed & {pair[list(ALLOWED).index(machine)] for pair in DANGEROUS.values()}
    of_x32 = {decide(machine, bpf.X32 + number, 1, 0, 0) for number in bpf.NUMBERS}
    assert of_x32 == {REFUSE}, "x32 calls are others"


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
    others = {AUDIT[other] for other in AUDIT if other != machine} | {*bpf.OTHERS.values()}
    verdicts = {decide(machine, number, 1, audit=other) for number in (1, 20) for other in others}
    assert verdicts == {KILL}


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
