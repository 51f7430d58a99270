"""How much memory this process may take: the machine's, or less where a control group limits it.

Docker, Kubernetes and systemd limit the memory of a group of processes. Whatever exceeds the limit
is killed, however much the machine has left. A group lies in others, each of which may have a limit
of its own, so the least of all counts. Version 1 and version 2 of control groups name their files
differently (https://docs.kernel.org/admin-guide/cgroup-v1/memory.html and .../cgroup-v2.html).

Files that a group has read count as its usage until the kernel needs the room. So what is free is
the limit, less the usage, plus the part of such files that was not used lately.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil

OWN_GROUPS, MOUNTS = Path("/proc/self/cgroup"), Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Files:
    """What a version of control groups calls its files, and a key in the last of them."""

    limit: str
    usage: str
    reclaimable: str  # of memory.stat


VERSION_1 = Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
VERSION_2 = Files("memory.max", "memory.current", "inactive_file")


@dataclass(frozen=True, slots=True)
class CgroupMemory:
    """The memory limit of one control group, in bytes."""

    limit: int
    free: int


def available() -> int:
    """Bytes that this process may still take without being killed or making others swap."""
    free = [limit.free for limit in group_limits()]
    return min([int(psutil.virtual_memory().available), *free])


def total() -> int:
    """Bytes that there are for this process and those in its control group, taken or not."""
    limits = [limit.limit for limit in group_limits()]
    return min([int(psutil.virtual_memory().total), *limits])


def group_limits(own_groups: Path = OWN_GROUPS, mounts: Path = MOUNTS) -> list[CgroupMemory]:
    """The limits of the control group of this process and of all that it lies in. Empty where the
    system has no control groups, or none has a limit.
    """
    limits = []
    for folder, files in group_folders(own_groups, mounts):
        with suppress(OSError, ValueError):  # no limit, or not for our eyes
            limit = int((folder / files.limit).read_text())
            usage = int((folder / files.usage).read_text())
            free = limit - usage + reclaimable(folder, files)
            limits.append(CgroupMemory(limit, max(0, min(free, limit))))
    return limits


def reclaimable(folder: Path, files: Files) -> int:
    """Bytes of the usage of a group that the kernel takes back when it needs them."""
    with suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == files.reclaimable:
                return int(value)
    return 0


def group_folders(own_groups: Path, mounts: Path) -> Iterator[tuple[Path, Files]]:
    """The folders of the groups that bound this process's memory, the innermost first."""
    try:
        own = own_groups.read_text().splitlines()
        mounted = mounts.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in own:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        files = VERSION_1 if controllers else VERSION_2
        for root, point in mount_points(mounted, files):
            for folder in upwards(path, root, point):
                yield folder, files


def mount_points(mounted: list[str], files: Files) -> Iterator[tuple[str, Path]]:
    """Where control groups of this version are mounted: the group that is shown there, and the
    folder (proc(5), /proc/pid/mountinfo).
    """
    for line in mounted:
        before, _, behind = line.partition(" - ")
        root, point = before.split(" ")[3:5]
        kind, _, options = (*behind.split(" "), "", "")[:3]
        memory = kind == "cgroup" and "memory" in options.split(",")
        if memory if files is VERSION_1 else kind == "cgroup2":
            yield root, Path(point.replace("\\040", " "))


def upwards(path: str, root: str, point: Path) -> Iterator[Path]:
    """The folder of a group and those above it, up to where it is mounted. A container may see its
    own group as the root, under a path that only the host knows.
    """
    inside = PurePosixPath(path)
    if inside.is_relative_to(root):
        inside = inside.relative_to(root)
    folder = point / str(inside).lstrip("/")
    if ".." in inside.parts or not folder.is_dir():
        folder = point
    while folder != point:
        yield folder
        folder = folder.parent
    yield point
