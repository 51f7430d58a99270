"""The filter of the processes that talk to strangers: every number that the kernel might know is
allowed or refused as this file says, and the kernel of this machine agrees.
"""

import json
import platform
import re
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from swarm_node.common.linux import ALLOW, AUDIT, KILL, REFUSE, UNKNOWN
from swarm_node.network.confinement import GAPS, NEWEST, REFUSED, program
from tests import bpf
from tests.commands import python
from tests.core.scoring.test_seccomp import HEADERS

decide = partial(bpf.decide, program)
on_linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in AUDIT, reason="no such filter here"
)

# Each call that a stranger's code was found to use, or could, against the user: x86-64, arm64
AGAINST_THE_USER = {
    "setxattr": (188, 5), "setxattrat": (463, 463), "removexattrat": (466, 466),
    "file_setattr": (469, 469), "chmod": (90, None), "fchmodat2": (452, 452),
    "utimensat": (280, 88), "inotify_add_watch": (254, 27), "getxattr": (191, 8),
    "getxattrat": (464, 464), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "shmget": (29, 194),
    "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "semtimedop": (220, 192), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "setuid": (105, 146), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "pidfd_getfd": (438, 438), "execveat": (322, 281), "memfd_create": (319, 279),
    "io_uring_setup": (425, 425), "bpf": (321, 280), "unshare": (272, 97), "mount": (165, 40),
    "open_tree_attr": (467, 467), "statmount": (457, 457), "keyctl": (250, 219),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "open_by_handle_at": (304, 265),
}  # fmt: skip
# What Python, py-libp2p and Go's runtime live on
NEEDED = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "connect": (42, 203), "accept4": (288, 242), "sendto": (44, 206), "recvfrom": (45, 207),
    "sendmsg": (46, 211), "recvmsg": (47, 212), "bind": (49, 200), "listen": (50, 201),
    "execve": (59, 221), "wait4": (61, 260), "kill": (62, 129), "tgkill": (234, 131),
    "openat": (257, 56), "newfstatat": (262, 79), "unlinkat": (263, 35), "mkdirat": (258, 34),
    "futex": (202, 98), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_pwait": (281, 22), "pipe2": (293, 59), "eventfd2": (290, 19), "nanosleep": (35, 101),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "getpriority": (140, 141),
    "prctl": (157, 167), "capset": (126, 91), "landlock_restrict_self": (446, 446),
    "getrandom": (318, 278), "rseq": (334, 293), "close_range": (436, 436), "mseal": (462, 462),
    "futex_wait": (455, 455), "exit_group": (231, 94),
}  # fmt: skip
# Allowed or not by an argument, which is 0 here
BY_ARGUMENT = {"socket": (41, 198), "clone3": (435, 435)}


def numbers(names: dict[str, tuple[int | None, int]], machine: str) -> set[int]:
    column = list(AUDIT).index(machine)
    return {pair[column] for pair in names.values() if pair[column] is not None}


@pytest.mark.parametrize("machine", AUDIT)
def test_every_number_is_refused_that_is_named_unused_or_newer(machine: str) -> None:
    verdicts = {number: decide(machine, number) for number in bpf.NUMBERS}
    named = numbers(dict(REFUSED), machine)
    first, last = GAPS[machine]
    unknown = {*range(NEWEST + 1, len(bpf.NUMBERS)), *range(first, last + 1)}
    assert named & unknown == set(), "a call that is named has a number"
    assert {number for number, found in verdicts.items() if found == UNKNOWN} == (
        unknown | {BY_ARGUMENT["clone3"][0]}
    )
    socket = numbers({"socket": BY_ARGUMENT["socket"]}, machine)
    assert {number for number, found in verdicts.items() if found == REFUSE} == named | socket
    assert set(verdicts.values()) == {ALLOW, REFUSE, UNKNOWN}


@pytest.mark.parametrize("machine", AUDIT)
def test_what_harms_the_user_is_refused_and_what_a_process_lives_on_is_not(machine: str) -> None:
    harm, needed = numbers(AGAINST_THE_USER, machine), numbers(NEEDED, machine)
    assert {decide(machine, number) for number in harm} == {REFUSE}
    assert {decide(machine, number) for number in needed} == {ALLOW}


@pytest.mark.parametrize("machine", AUDIT)
def test_calls_of_x32_are_refused(machine: str) -> None:
    of_x32 = {decide(machine, bpf.X32 + number) for number in bpf.NUMBERS}
    assert of_x32 == {REFUSE}
    assert decide(machine, 0xFFFFFFFF) == REFUSE


@pytest.mark.parametrize("machine", AUDIT)
def test_calls_of_another_architecture_end_the_process(machine: str) -> None:
    others = {AUDIT[other] for other in AUDIT if other != machine} | {*bpf.OTHERS.values()}
    for number in bpf.NUMBERS:
        assert {decide(machine, number, audit=other) for other in others} == {KILL}


@pytest.mark.parametrize("machine", AUDIT)
def test_arguments_matter(machine: str) -> None:
    column = list(AUDIT).index(machine)
    socket, clone, prlimit, ioctl = (
        pair[column] for pair in ((41, 198), (56, 220), (302, 261), (16, 29))
    )
    for family in (1, 2, 10):  # Unix, IPv4, IPv6
        assert decide(machine, socket, family, 1 | 0o2004000) == ALLOW
        assert decide(machine, socket, family, 3) == REFUSE  # raw
    assert decide(machine, socket, 16, 3, 0) == ALLOW  # netlink, for the addresses of this machine
    assert decide(machine, socket, 16, 3, 9) == REFUSE  # audit
    assert {decide(machine, socket, family, 1) for family in (3, 17, 38, 40, 44)} == {REFUSE}
    assert decide(machine, clone, int(signal.SIGCHLD)) == ALLOW
    for namespace in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 1 << 30):
        assert decide(machine, clone, namespace | int(signal.SIGCHLD)) == REFUSE
    assert decide(machine, prlimit, 0) == ALLOW
    assert decide(machine, prlimit, 1) == REFUSE
    assert decide(machine, ioctl, 1, 0x5421) == ALLOW  # FIONBIO
    for request in (0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820):
        assert decide(machine, ioctl, 1, request) == REFUSE


@pytest.mark.parametrize("machine", AUDIT)
def test_the_numbers_are_the_kernel_s(machine: str) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip("no kernel headers here")
    known = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    }
    column, newest_there = list(AUDIT).index(machine), known.pop("syscalls", max(known.values()))
    ours = {name: pair[column] for name, pair in {**REFUSED, **NEEDED, **AGAINST_THE_USER}.items()}
    # Headers may be older than the newest calls
    ours = {name: number for name, number in ours.items() if (number or 0) < newest_there}
    theirs = {name: known.get(name) for name in ours}
    if machine == "aarch64":
        theirs["newfstatat"] = known["fstatat"]  # the common header's name
    assert theirs == ours
    first, last = GAPS[machine]
    on_64_bits = {number for number in known.values() if first <= number <= last}
    # Those of 32 bits, from clock_gettime64 on, stand in the common header
    assert machine == "aarch64" or not on_64_bits


@on_linux
@pytest.mark.parametrize("which", bpf.PROGRAMS)
def test_the_kernel_refuses_what_the_interpreter_says(which: str) -> None:
    """Only calls that the filter refuses are made."""
    done = python("-m", "tests.bpf", which)
    assert done.returncode == 0, done.stderr
    said = {int(number): error for number, error in json.loads(done.stdout).items()}
    assert said == bpf.refused(bpf.PROGRAMS[which], platform.machine())
    assert len(said) > len(bpf.NUMBERS)


@on_linux
@pytest.mark.skipif(platform.machine() != "x86_64", reason="i386 is x86-64's")
@pytest.mark.parametrize("which", bpf.PROGRAMS)
def test_a_call_of_i386_ends_the_process(which: str) -> None:
    if python("-m", "tests.bpf", which, "free", "i386").returncode:
        pytest.skip("this kernel runs no calls of i386")
    done = python("-m", "tests.bpf", which, "i386")
    assert done.returncode == -signal.SIGSYS, done.stderr


def test_the_filter_is_short_enough_for_the_kernel() -> None:
    assert all(len(program(machine)) <= 4096 for machine in AUDIT)
