"""Confinement: the rights that processes which talk to strangers give up, for good, before a
stranger's first byte.

The network process and its daemon p2pd parse what anybody sends. An attacker who takes one over
gains only what that process needs: connections, the folder of its own sockets, and the key of the
node, with which it signs. Each layer is used where the system has it; none needs root, capabilities
or user namespaces, so a default container will do:

    rlimits       memory, descriptors, no core dump
    no_new_privs  Linux: set-uid programs give no rights
    seccomp       Linux on x86-64 and arm64: none of the calls of REFUSED, no raw sockets, no new
                  namespaces
    landlock      Linux 5.13: no path but those named, no program but p2pd; 6.12: no signal to other
                  processes

No layer stops connections to a Unix socket by its path, such as that of a Docker engine which this
user may use. `doctor` reports such sockets.
"""

import json
import os
import resource
import site
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import protocol
from swarm_node.common import linux
from swarm_node.common.children import said_by
from swarm_node.common.linux import (
    AND,
    ANY_BIT,
    AUDIT,
    EQUAL,
    GREATER,
    RETURN,
    TO_ALLOW,
    TO_REFUSE,
    UNKNOWN,
    Instruction,
    argument,
    beginning,
    filter_here,
)

# Of writable data; the network process takes about 100 MB, p2pd in a flood 200
MEMORY_BYTES = 1024 * 1024 * 1024
# For DNS
NAMES = ("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf")
ENGINES = ("/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock")

# Calls that Python, py-libp2p, zeroconf and p2pd never make: numbers on x86-64 and arm64 (None: no
# such call).
REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "migrate_pages": (256, 238), "move_pages": (279, 239),
    # programs that are not files, and calls that bypass the filter
    "execveat": (322, 281), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # kinds and attributes of files, which Landlock does not govern
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "utime": (132, None),
    "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88), "mknod": (133, None),
    "mknodat": (259, 33), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # mounts, roots and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # the kernel and the machine
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "fanotify_init": (300, 262), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "syslog": (103, 116), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "personality": (135, 92), "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
}  # fmt: skip
_LOOKED_AT = {
    "socket": (41, 198),
    "clone": (56, 220),
    "clone3": (435, 435),
    "prlimit64": (302, 261),
    "ioctl": (16, 29),
}
_MACHINES = tuple(AUDIT)

_X32 = 0x3FFFFFFF  # higher numbers are x32's, which repeats the calls under other numbers
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16  # AF_*
_STREAM, _DATAGRAM, _KIND = 1, 2, 0xF  # SOCK_*; the rest of the type are flags
_NAMESPACES = 0x7E020000  # CLONE_NEW*
# TIOCSTI, TIOCLINUX: they forge the terminal's input
_TYPE_FOR_THE_USER, _TYPE_ON_THE_CONSOLE = 0x5412, 0x541C


def program(machine: str) -> list[Instruction]:
    """The seccomp filter for a `platform.machine()` that linux.AUDIT lists."""
    column = _MACHINES.index(machine)
    code = [*beginning(AUDIT[machine]), (GREATER, 0, 1, _X32), TO_REFUSE]
    for numbers in REFUSED.values():
        if (number := numbers[column]) is not None:
            code += [(EQUAL, 0, 1, number), TO_REFUSE]
    looked_at = {name: numbers[column] for name, numbers in _LOOKED_AT.items()}
    code += [(EQUAL, 0, 1, looked_at["clone3"]), (RETURN, 0, 0, UNKNOWN)]
    code += _if(
        looked_at["clone"], [argument(0), (ANY_BIT, 0, 1, _NAMESPACES), TO_REFUSE, TO_ALLOW]
    )
    # Of this process only
    code += _if(looked_at["prlimit64"], [argument(0), (EQUAL, 1, 0, 0), TO_REFUSE, TO_ALLOW])
    forged = [
        (EQUAL, 0, 1, _TYPE_FOR_THE_USER),
        TO_REFUSE,
        (EQUAL, 0, 1, _TYPE_ON_THE_CONSOLE),
        TO_REFUSE,
    ]
    code += _if(looked_at["ioctl"], [argument(1), *forged, TO_ALLOW])
    code += _if(looked_at["socket"], _sockets())
    return [*code, TO_ALLOW]


def _sockets() -> list[Instruction]:
    """Allows streams and datagrams of IPv4, IPv6 and Unix; of netlink, what lists the addresses of
    this machine.
    """
    routes = [argument(2), (EQUAL, 1, 0, 0), TO_REFUSE, TO_ALLOW]
    plain = [
        argument(1),
        (AND, 0, 0, _KIND),
        (EQUAL, 2, 0, _STREAM),
        (EQUAL, 1, 0, _DATAGRAM),
        TO_REFUSE,
        TO_ALLOW,
    ]
    families = [(EQUAL, 3, 0, _UNIX), (EQUAL, 2, 0, _INET), (EQUAL, 1, 0, _INET6), TO_REFUSE]
    return [argument(0), (EQUAL, 0, len(routes), _NETLINK), *routes, *families, *plain]


def _if(number: int, then: list[Instruction]) -> list[Instruction]:
    """Applies `then` to the call with this number; every path through `then` returns."""
    return [(EQUAL, 0, len(then), number), *then]


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers that bind a process, and those that its system does not have."""

    held: tuple[str, ...]
    missing: tuple[str, ...]


class Confinement:
    """A process makes one for itself, or for a child that enters it between fork and exec, where
    nothing may be imported or locked any more. `enter` binds the calling thread and all that it
    starts.
    """

    def __init__(self, paths: Mapping[Path, int]) -> None:
        """`paths`: the paths that stay open, with rights of common.linux. Raises OSError where the
        kernel has Landlock and refuses the rules.
        """
        self._filter = filter_here(program)
        self._rules = linux.ruleset(paths, tcp=True)

    def enter(self) -> Layers:
        """Puts on all layers, for good. Raises OSError where a layer that the system has cannot be
        put on.
        """
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_DATA, MEMORY_BYTES)
        _lower(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        held, missing = ["rlimits"], list[str]()
        if sys.platform == "linux":
            linux.no_new_privileges()
            held.append("no_new_privs")
        for name, there in (("landlock", self._rules >= 0), ("seccomp", self._filter is not None)):
            (held if there else missing).append(name)
        if self._rules >= 0:
            linux.restrict(self._rules)
        if self._filter is not None:
            self._filter.install()
        return Layers(tuple(held), tuple(missing))

    def close(self) -> None:
        """Closes the rules; a process that has entered stays bound."""
        if self._rules >= 0:
            os.close(self._rules)
            self._rules = -1


def of_this_process(folders: Mapping[Path, int], daemon: Path | None) -> dict[Path, int]:
    """Paths for a Python process that talks to strangers: its own code and libraries, and files for
    resolving names. `folders`: further paths, with rights; `daemon`: the one program that it may
    start, None where it starts none.
    """
    # Not the other files of a checkout
    code = [Path(__file__).parents[1], *map(Path, protocol.__path__)]
    kept = dict.fromkeys([*code, *_libraries(), *map(Path, NAMES)], linux.READ)
    kept |= {
        Path("/dev/null"): linux.READ_FILE | linux.WRITE_FILE,
        Path("/dev/urandom"): linux.READ_FILE,
    }
    if daemon is not None:
        kept |= of_the_daemon(daemon)
    return {**kept, **folders}


def of_the_daemon(daemon: Path, folder: Path | None = None) -> dict[Path, int]:
    """Paths that p2pd needs: its own file, files for resolving names, and the folder of its
    sockets.
    """
    settings = (
        "/proc/sys/net/core/somaxconn",
        "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
    )
    kept = dict.fromkeys(map(Path, (*NAMES, *settings)), linux.READ_FILE) | {daemon: linux.RUN}
    return kept if folder is None else {**kept, folder: linux.OWN}


def layers_here() -> Layers:
    """The layers that bind such a process on this system, as found by a child that enters them and
    ends.
    """
    return Layers(
        **{name: tuple(found) for name, found in said_by("swarm_node.network.confinement").items()}
    )


def _libraries() -> list[Path]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [Path(sysconfig.get_path(name)) for name in names] + [Path(sys.base_prefix) / "lib"]
    if site.ENABLE_USER_SITE:
        found.append(Path(site.getusersitepackages()))
    return [
        *found,
        Path("/usr/lib"),
        Path("/usr/local/lib"),
        Path("/lib"),
        Path("/lib64"),
        Path("/etc/ld.so.cache"),
    ]


def _lower(what: int, value: int) -> None:
    """Sets the soft and the hard limit to `value`, or to the present hard limit where that is
    lower.
    """
    hard = resource.getrlimit(what)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(Confinement(of_this_process({}, None)).enter())))
