"""Confinement: the rights that processes which talk to strangers give up, for good, before a
stranger's first byte.

The network process and its daemon p2pd parse what anybody sends. An attacker who takes one over
gains only what that process needs: connections, the folder of its own sockets, and the key of the
node, with which it signs. Each layer is used where the system has it; none needs root, capabilities
or user namespaces, so a default container will do:

    rlimits       memory, descriptors, no core dump
    no_new_privs  Linux: set-uid programs give no rights
    capabilities  Linux: none, so that root is not above permissions; see `Confinement` for three
                  that are kept where nothing works without them
    seccomp       Linux on x86-64 and arm64: none of the calls of REFUSED, none that is newer than
                  those this file knows, no raw sockets, no new namespaces
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
FIRST_FREE_PORT = 1024  # those below are root's
# For DNS
NAMES = ("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf")
ENGINES = ("/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock")

# The newest call that this file knows: file_setattr, of Linux 6.17. A newer one answers as on a
# kernel without it, so that libraries use an older one.
NEWEST = 469
# The first and the last of the numbers that no call of this machine has, below the newest
GAPS: Mapping[str, tuple[int, int]] = {"x86_64": (337, 423), "aarch64": (295, 423)}

# Calls that Python, py-libp2p, zeroconf and p2pd never make: numbers on x86-64 and arm64 (None: no
# such call). Read tests/core/network/test_filter.py before changing it: it interprets the filter.
REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    # other processes: their memory, and their share of the machine
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
    # memory, queues and locks that other processes of the user open by a number or a name
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197),
    "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183), "mq_notify": (244, 184), "mq_getsetattr": (245, 185),
    # another user or group
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
    "setgroups": (116, 159), "setresuid": (117, 147), "setresgid": (119, 149),
    "setfsuid": (122, 151), "setfsgid": (123, 152),
    # programs that are not files, and calls that bypass the filter
    "execveat": (322, 281), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0), "io_submit": (209, 2), "uselib": (134, None),
    # kinds, attributes and changes of files, which Landlock does not govern
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10), "getxattrat": (464, 464),
    "listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13),
    "listxattrat": (465, 465), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "file_getattr": (468, 468),
    "file_setattr": (469, 469), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "mknod": (133, None), "mknodat": (259, 33),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "cachestat": (451, 451),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    # mounts, roots and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "statmount": (457, 457), "listmount": (458, 458),
    "open_tree_attr": (467, 467),
    # the kernel and the machine
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "syslog": (103, 116),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161),
    "setdomainname": (171, 162), "personality": (135, 92), "iopl": (172, None),
    "ioperm": (173, None), "modify_ldt": (154, None), "lookup_dcookie": (212, 18),
    "vhangup": (153, 58), "sync": (162, 81), "syncfs": (306, 267), "nfsservctl": (180, 42),
    "lsm_get_self_attr": (459, 459), "lsm_set_self_attr": (460, 460),
    "lsm_list_modules": (461, 461),
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
# Requests of ioctl
_FORBIDDEN_REQUESTS = (
    0x5412,  # TIOCSTI, and
    0x541C,  # TIOCLINUX: they forge the terminal's input
    0x40086602,  # FS_IOC_SETFLAGS, and
    0x40046602,  # FS_IOC32_SETFLAGS, and
    0x401C5820,  # FS_IOC_FSSETXATTR: what file_setattr does, to an open file
)


def program(machine: str) -> list[Instruction]:
    """The seccomp filter for a `platform.machine()` that linux.AUDIT lists."""
    column = _MACHINES.index(machine)
    code = [*beginning(AUDIT[machine]), (GREATER, 0, 1, _X32), TO_REFUSE]
    code += _unknown(NEWEST + 1, _X32) + _unknown(*GAPS[machine])
    for numbers in REFUSED.values():
        if (number := numbers[column]) is not None:
            code += [(EQUAL, 0, 1, number), TO_REFUSE]
    looked_at = {name: numbers[column] for name, numbers in _LOOKED_AT.items()}
    code += _unknown(looked_at["clone3"], looked_at["clone3"])
    code += _if(
        looked_at["clone"], [argument(0), (ANY_BIT, 0, 1, _NAMESPACES), TO_REFUSE, TO_ALLOW]
    )
    # Of this process only
    code += _if(looked_at["prlimit64"], [argument(0), (EQUAL, 1, 0, 0), TO_REFUSE, TO_ALLOW])
    forbidden = [argument(1)]
    for request in _FORBIDDEN_REQUESTS:
        forbidden += [(EQUAL, 0, 1, request), TO_REFUSE]
    code += _if(looked_at["ioctl"], [*forbidden, TO_ALLOW])
    code += _if(looked_at["socket"], _sockets())
    return [*code, TO_ALLOW]


def _unknown(first: int, last: int) -> list[Instruction]:
    """Answers the calls of these numbers as a kernel without them does."""
    return [(GREATER, 0, 2, first - 1), (GREATER, 1, 0, last), (RETURN, 0, 0, UNKNOWN)]


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

    A process of root gives up its capabilities, and then has the permissions of any user. So it
    keeps one where it cannot do without: to read, or write, where one of its own paths belongs to
    somebody else and is closed to root, and to listen on a port below 1024, if it is told to.
    """

    def __init__(self, paths: Mapping[Path, int], port: int = 0) -> None:
        """`paths`: the paths that stay open, with rights of common.linux; `port`: to listen on, 0
        for a free one. Raises OSError where the kernel has Landlock and refuses the rules.
        """
        self._filter = filter_here(program)
        self._rules = linux.ruleset(paths, tcp=True)
        self._capabilities = needed_capabilities(paths, port)

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
            linux.keep_capabilities(self._capabilities)
            held.append("capabilities")
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


def needed_capabilities(paths: Mapping[Path, int], port: int = 0) -> int:
    """The capabilities without which this process could not use these paths, or this port."""
    if sys.platform != "linux":
        return 0
    needed = linux.NET_BIND_SERVICE if 0 < port < FIRST_FREE_PORT else 0
    with linux.without_capabilities(linux.DAC_OVERRIDE | linux.DAC_READ_SEARCH):
        for path, rights in paths.items():
            if rights & linux.WRITE_FILE and not _open_to_write(path):
                needed |= linux.DAC_OVERRIDE
            elif not _open_to_read(path, rights):
                needed |= linux.DAC_READ_SEARCH
    return needed & linux.effective_capabilities()


def _open_to_read(path: Path, rights: int) -> bool:
    """Whether permissions let this process read it, and in a folder also reach what is below."""
    try:
        if rights & linux.READ_FILE and (path.is_dir() or path.is_file()):
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        os.stat(f"{path}/." if path.is_dir() else path)
    except PermissionError:
        return False
    except OSError:  # there is nothing to need
        return True
    return True


def _open_to_write(path: Path) -> bool:
    """Whether permissions let this process write to it; a folder: also to the files in it."""
    try:
        if not path.exists():
            return True
        below = list(path.iterdir()) if path.is_dir() else []
        there = [path, *(file for file in below if file.is_file())]
        return all(os.access(one, os.R_OK | os.W_OK, effective_ids=True) for one in there)
    except PermissionError:
        return False
    except OSError:
        return True


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
