"""Memory is what the least of all limits leaves: the machine's, or that of a control group."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from swarm_node.common.memory import CgroupMemory, available, group_limits, total

MB = 10**6
V1_MOUNT = "35 31 0:32 {root} {point} rw,relatime - cgroup cgroup rw,memory"
V2_MOUNT = "31 23 0:28 {root} {point} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"


class Groups:
    """Control groups as files below a folder, as this process would see them."""

    def __init__(self, folder: Path, mount: str, own: str, root: str = "/") -> None:
        self.point = folder / "cgroup"
        self.point.mkdir()
        self.own, self.mounts = folder / "own", folder / "mountinfo"
        self.own.write_text(own)
        self.mounts.write_text(
            f"23 1 0:1 / / rw - ext4 /dev/sda1 rw\n{mount}\n".format(
                root=root, point=str(self.point).replace(" ", "\\040")
            )
        )

    def add(self, path: str, **files: object) -> None:
        (self.point / path).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (self.point / path / name.replace("__", ".")).write_text(f"{content}\n")

    def limits(self) -> list[CgroupMemory]:
        return group_limits(self.own, self.mounts)


def test_of_version_2_every_ancestor_counts_and_files_that_were_read_are_free(
    tmp_path: Path,
) -> None:
    groups = Groups(tmp_path, V2_MOUNT, "0::/kube/pod/box\n")
    stat = f"anon {150 * MB}\ninactive_file {50 * MB}\nactive_file 7"
    groups.add(
        "kube/pod/box",
        memory__max=1200 * MB,
        memory__current=200 * MB,
        memory__stat=stat,
    )
    groups.add("kube/pod", memory__max="max", memory__current=300 * MB)
    groups.add("kube", memory__max=2000 * MB, memory__current=1900 * MB)
    assert groups.limits() == [
        CgroupMemory(1200 * MB, 1050 * MB),
        CgroupMemory(2000 * MB, 100 * MB),
    ]


def test_of_version_1_the_group_of_the_memory_controller_counts(tmp_path: Path) -> None:
    own = "5:devices:/other\n4:cpu,memory:/docker/a b\n1:name=systemd:/x\n0::/\n"
    groups = Groups(tmp_path, V1_MOUNT, own)
    files = {"memory__limit_in_bytes": 1200 * MB, "memory__usage_in_bytes": 300 * MB}
    groups.add("docker/a b", **files, memory__stat=f"total_inactive_file {100 * MB}")
    no_limit = {"memory__limit_in_bytes": 9223372036854771712, "memory__usage_in_bytes": 5}
    groups.add("", **no_limit)
    assert groups.limits()[0] == CgroupMemory(1200 * MB, 1000 * MB)
    assert groups.limits()[1].limit > 10**18


@pytest.mark.parametrize("own", ["/docker/abc", "/../../elsewhere", "/gone/since"])
def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path, own: str) -> None:
    groups = Groups(tmp_path, V2_MOUNT, f"0::{own}\n", root="/docker/abc")
    groups.add("", memory__max=900 * MB, memory__current=100 * MB)
    assert groups.limits() == [CgroupMemory(900 * MB, 800 * MB)]


def test_a_group_that_is_above_its_limit_has_nothing_free(tmp_path: Path) -> None:
    groups = Groups(tmp_path, V2_MOUNT, "0::/\n")
    groups.add("", memory__max=100 * MB, memory__current=120 * MB)
    assert groups.limits() == [CgroupMemory(100 * MB, 0)]


def test_a_system_without_control_groups_has_no_limit_of_them(tmp_path: Path) -> None:
    assert group_limits(tmp_path / "none", tmp_path / "none") == []
    groups = Groups(tmp_path, V2_MOUNT, "0::/\n")
    groups.add("", memory__max="nonsense")
    assert groups.limits() == []


def test_no_more_is_available_than_the_machine_has() -> None:
    assert 0 < available() <= total() <= psutil.virtual_memory().total


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A control group of this machine that may take 1,200 MB. A process joins it by its procs."""
    for mount, limit in (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ("/sys/fs/cgroup", "memory.max"),
    ):
        group = Path(mount) / f"swarm-node-test-{os.getpid()}"
        if not os.access(mount, os.W_OK) or not (Path(mount) / "cgroup.procs").exists():
            continue
        group.mkdir()
        try:
            (group / limit).write_text(str(1200 * 2**20))
            yield group
        finally:
            group.rmdir()
        return
    pytest.skip("no control group can be made here: it takes root")


JOINS = """
import json, os, sys
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
from swarm_node.common.memory import available, total
print(json.dumps([available(), total()]))
"""


def test_a_process_in_a_real_group_has_what_the_group_leaves(real_group: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", JOINS, str(real_group)],
        capture_output=True,
        text=True,
        check=True,
    )
    free, there = json.loads(done.stdout)
    assert there == 1200 * 2**20
    assert 900 * 2**20 < free < there
