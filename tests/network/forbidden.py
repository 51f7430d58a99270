"""Attempts of somebody who has taken over a process that talks to strangers, and the outcome of
each attempt.

Run as a child: `python -m tests.network.forbidden WHO HOME SOCKETS SECRET`. It confines itself
exactly as the network process does (WHO is the name of a backend), or as p2pd is (WHO is "p2pd"),
or not at all (WHO is "nothing"), tries everything, and prints one JSON object: attempt -> "refused:
...", or "had ...". HOME and SECRET are the user's; the process that started this one plays the
trainer. Attempts whose names begin with "root" are for root.
"""

import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swarm_node.network.confinement import Confinement, of_the_daemon
from swarm_node.network.process.confined import confine
from swarm_node.network.transport import p2pd
from swarm_node.settings import NetworkConfig

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, O_PATH = 16, os.O_PATH
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000

HARMLESS = (
    "read an ssh key", "read the identity of the node", "read the environment of the trainer",
    "write the checkpoint",
    "remove the checkpoint", "make a file in the home", "make a link in the home", (
        "change the mode of the ssh key"
    ),
    "change the times of the ssh key", "list the processes", "start a shell", (
        "start another Python"
    ),
    "open the ssh key to others by an access list", "open the ssh key by the newer call",
    "read an attribute of the ssh key", "watch the folder of ssh keys",
    "make the trainer slow", "make the trainer's disk slow", "keep the trainer on one core",
    "run the trainer only when idle", "shared memory by a number", "a queue by a number",
    "a semaphore by a number", "a queue by a name", "become another user",
    "root: a capability of a program", "root: a mark on an open file", "root: an immutable file",
)  # fmt: skip


OF_NEWER_SYSTEMS = {
    "open the ssh key to others by an access list",
    "open the ssh key by the newer call",
    "root: a mark on an open file",
    "root: an immutable file",
}
# Version 2, with one entry for the owner, another user and the rest: all of them may read
ACCESS_LIST = b"".join(
    [
        (2).to_bytes(4, "little"),
        *(
            tag.to_bytes(2, "little") + (6).to_bytes(2, "little") + who.to_bytes(4, "little")
            for tag, who in (
                (0x01, 0xFFFFFFFF),
                (0x02, 65534),
                (0x04, 0xFFFFFFFF),
                (0x10, 0xFFFFFFFF),
                (0x20, 0xFFFFFFFF),
            )
        ),
    ]
)
# Version 2, effective: CAP_SYS_ADMIN
CAPABILITY = b"".join(word.to_bytes(4, "little") for word in (0x02000001, 1 << 21, 0, 0, 0))
AT_FDCWD, IPC_PRIVATE, IPC_CREAT, IPC_RMID = -100, 0, 0o1000, 0
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602
PRIO_PROCESS, IOPRIO_WHO_PROCESS = 0, 1


def call(number: int, *arguments: Any) -> int:
    """A system call by its number on x86-64. Raises OSError."""
    # Whole registers: the kernel reads more of the sixth argument than C's int has
    whole = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = LIBC.syscall(number, *whole)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def set_attribute(path: Path, name: bytes, value: bytes) -> int:
    """setxattrat(2), of Linux 6.13."""
    held = ctypes.create_string_buffer(value, len(value))
    arguments = (ctypes.c_uint64 * 2)(ctypes.addressof(held), len(value))
    return call(463, AT_FDCWD, str(path).encode(), 0, name, arguments, 16)


def file_attributes(path: Path) -> int:
    """file_setattr(2), of Linux 6.17, with the attributes that file_getattr(2) gave."""
    attributes = (ctypes.c_char * 24)()
    call(468, AT_FDCWD, str(path).encode(), attributes, 24, 0)
    return call(469, AT_FDCWD, str(path).encode(), attributes, 24, 0)


def mark(folder: Path) -> int:
    """The flags of an open file, set to what they are: root could make it immutable so."""
    file, flags = folder / "marked", ctypes.c_long()
    with file.open("wb") as opened:
        call(16, opened.fileno(), FS_IOC_GETFLAGS, ctypes.byref(flags))
        return call(16, opened.fileno(), FS_IOC_SETFLAGS, ctypes.byref(flags))


def watch(folder: Path) -> int:
    """inotify: what happens in the folder, with the names of its files."""
    return call(254, call(294, 0), str(folder).encode(), 0x100)


def queue() -> int:
    """A POSIX queue, which stays after the process unless it is removed."""
    name = b"swarm-node-forbidden"
    os.close(call(240, name, os.O_CREAT | os.O_RDWR, 0o600, 0))
    return call(241, name)


def attempts(home: Path, sockets: Path, secret: Path, parent: int) -> dict[str, Callable[[], Any]]:
    """At least thirty attempts, each of which a process of this user could make before it was
    confined.
    """
    checkpoint = home / "checkpoint" / "model.safetensors"
    attributes = (ctypes.c_char * 128)()
    return {
        "read an ssh key": lambda: secret.read_bytes(),
        "list the folder of ssh keys": lambda: os.listdir(secret.parent),
        "read the identity of the node": lambda: (home / "identity.key").read_bytes(),
        "read the checkpoint": lambda: checkpoint.read_bytes(),
        "write the checkpoint": lambda: checkpoint.open("r+b").write(b"x"),
        "truncate the checkpoint": lambda: os.truncate(checkpoint, 0),
        "remove the checkpoint": lambda: checkpoint.unlink(),
        "rename the checkpoint": lambda: checkpoint.rename(home / "other"),
        "make a file in the home": lambda: (home / "new").write_bytes(b"x"),
        "make a folder in the home": lambda: (home / "folder").mkdir(),
        "make a link in the home": lambda: (home / "link").symlink_to(secret),
        "change the mode of the ssh key": lambda: secret.chmod(0o644),
        "change the times of the ssh key": lambda: os.utime(secret, (0, 0)),
        "set an attribute of the ssh key": lambda: os.setxattr(secret, "user.x", b"y"),
        "open the ssh key to others by an access list": lambda: os.setxattr(
            secret, "system.posix_acl_access", ACCESS_LIST
        ),
        "open the ssh key by the newer call": lambda: set_attribute(
            secret, b"system.posix_acl_access", ACCESS_LIST
        ),
        "read an attribute of the ssh key": lambda: os.listxattr(secret),
        "watch the folder of ssh keys": lambda: watch(secret.parent),
        "root: a capability of a program": lambda: set_attribute(
            home / "identity.key", b"security.capability", CAPABILITY
        ),
        "root: an immutable file": lambda: file_attributes(home / "identity.key"),
        "root: a mark on an open file": lambda: mark(sockets),
        "give the ssh key away": lambda: os.chown(secret, 1, 1),
        "read the list of users": lambda: Path("/etc/passwd").read_bytes(),
        "list the processes": lambda: os.listdir("/proc"),
        "read the environment of the trainer": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
        "read the memory of the trainer": lambda: open(f"/proc/{parent}/mem", "rb").read(1),
        "read the trainer's memory by a call": lambda: call(310, parent, None, 0, None, 0, 0),
        "trace the trainer": lambda: call(101, PTRACE_ATTACH, parent, 0, 0),
        "take a descriptor of the trainer": lambda: call(438, os.pidfd_open(parent), 0, 0),
        "lower the trainer's limits": lambda: resource.prlimit(
            parent, resource.RLIMIT_NOFILE, (64, 64)
        ),
        "make the trainer slow": lambda: os.setpriority(
            PRIO_PROCESS, parent, os.getpriority(PRIO_PROCESS, parent)
        ),
        "make the trainer's disk slow": lambda: call(
            251, IOPRIO_WHO_PROCESS, parent, call(252, IOPRIO_WHO_PROCESS, parent)
        ),
        "keep the trainer on one core": lambda: os.sched_setaffinity(
            parent, os.sched_getaffinity(parent)
        ),
        "run the trainer only when idle": lambda: os.sched_setscheduler(
            parent, os.SCHED_OTHER, os.sched_param(0)
        ),
        "shared memory by a number": lambda: call(
            31, call(29, IPC_PRIVATE, 4096, IPC_CREAT | 0o600), IPC_RMID, 0
        ),
        "a semaphore by a number": lambda: call(
            66, call(64, IPC_PRIVATE, 1, IPC_CREAT | 0o600), 0, IPC_RMID, 0
        ),
        "a queue by a number": lambda: call(
            71, call(68, IPC_PRIVATE, IPC_CREAT | 0o600), IPC_RMID, 0
        ),
        "a queue by a name": lambda: queue(),
        "become another user": lambda: call(117, -1, -1, -1),
        "a call that nobody knows": lambda: call(999, 0, 0, 0),
        "end the trainer": lambda: os.kill(parent, signal.SIGUSR1),
        "exec a shell": lambda: os.execv("/bin/sh", ["sh", "-c", "echo escaped"]),
        "start a shell": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
        "start another Python": lambda: subprocess.run([sys.executable, "-c", "0"], check=True),
        "start a shell by the loader": lambda: subprocess.run(
            ["/lib64/ld-linux-x86-64.so.2", "/bin/sh"], check=True
        ),
        "run a program from memory": lambda: run_from_memory(),
        "a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        "a packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM),
        # Audit
        "a netlink socket of another kind": lambda: socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW, 9
        ),
        "a virtual machine's socket": lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM),
        "a namespace of users": lambda: call(272, CLONE_NEWUSER),
        "a namespace by clone": lambda: call(56, CLONE_NEWNS | signal.SIGCHLD, 0, 0, 0, 0),
        "mount": lambda: call(165, b"none", str(home).encode(), b"tmpfs", 0, None),
        "an io_uring": lambda: call(425, 1, attributes),
        "a program in the kernel": lambda: call(321, 0, attributes, 128),
        "a key ring": lambda: call(250, 0, -3, 0, 0, 0),
        "the kernel's log": lambda: call(103, 3, attributes, 128),
        "a file in shared memory": lambda: Path("/dev/shm/swarm-node-forbidden").write_bytes(b"x"),
        "more memory than allowed": lambda: mmap.mmap(-1, 2 * 1024**3, flags=mmap.MAP_PRIVATE),
        "raise the limit of memory": lambda: resource.setrlimit(resource.RLIMIT_DATA, (-1, -1)),
        "raise the limit of open files": lambda: more_files(),
        "input for the user's terminal": lambda: call(16, 0, 0x5412, b"x"),
    }


def run_from_memory() -> None:
    """Runs p2pd, the one program that may be read, from a file without a name."""
    held = os.memfd_create("x")
    os.write(held, p2pd.program().read_bytes())
    subprocess.run([f"/proc/self/fd/{held}", "-help"], pass_fds=[held], check=False)


def more_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))


def outcome(attempt: Callable[[], Any]) -> str:
    try:
        had = attempt()
    except (OSError, ValueError, subprocess.SubprocessError, OverflowError) as error:
        return f"refused: {error}"
    return f"had {str(had)[:60]!r}"


def main() -> None:
    who, home, sockets, secret = sys.argv[1], *map(Path, sys.argv[2:5])
    if who == "p2pd":
        confinement = Confinement(of_the_daemon(p2pd.program(), sockets))
        layers = confinement.enter()
    elif who == "nothing":
        layers = None
    else:
        layers = confine(NetworkConfig(backend=who, mdns=False), sockets)
    tried = attempts(home, sockets, secret, os.getppid())
    if os.geteuid() != 0:
        tried = {name: what for name, what in tried.items() if not name.startswith("root")}
    if who == "nothing":  # without the attempts that would stop the test itself
        tried = {name: tried[name] for name in HARMLESS if name in tried}
    found = {name: outcome(attempt) for name, attempt in tried.items()}
    if who != "nothing":
        (sockets / "mine").write_bytes(b"this much is its own")
    sys.stdout.write(json.dumps({"layers": layers.held if layers else [], "found": found}))


if __name__ == "__main__":
    main()
