"""A process of root that talks to strangers gives its capabilities up, and keeps one only where it
can do nothing without it.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_node.common import linux
from swarm_node.network.confinement import FIRST_FREE_PORT, needed_capabilities
from tests.commands import python
from tests.network.members import Member, closing, config, received_since, rounds

ALL = linux.DAC_OVERRIDE | linux.DAC_READ_SEARCH | linux.NET_BIND_SERVICE
pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(
        sys.platform != "linux" or linux.effective_capabilities() & ALL != ALL,
        reason="needs root's capabilities",
    ),
]
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
NOBODY = 65534

# Confines itself to the paths of the first argument, with the port of the second, and says what it
# can do
CHILD = """
import json, os, socket, sys
from pathlib import Path
from swarm_node.network.confinement import Confinement

given, port = json.loads(sys.argv[1]), int(sys.argv[2])
Confinement({Path(name): rights for name, rights in given.items()}, port).enter()
status = Path("/proc/self/status").read_text().splitlines()
said = {"sets": [line for line in status if line.startswith("Cap")]}
for name in sys.argv[3:]:
    try:
        said[name] = Path(name).read_text()
        Path(name).write_text("written")
        said[name] += ", written"
    except OSError as error:
        said[name] = said.get(name, "") + type(error).__name__
try:
    socket.create_server(("127.0.0.1", port)).close()
    said["port"] = "open"
except OSError as error:
    said["port"] = type(error).__name__
print(json.dumps(said))
"""


def confined(paths: dict[Path, int], port: int, *tried: Path) -> dict[str, str]:
    """What such a process found, with the capabilities that it had left."""
    given = {str(path): rights for path, rights in {Path("/proc"): linux.READ, **paths}.items()}
    done = python("-c", CHILD, json.dumps(given), port, *tried)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    sets = dict(line.split(":\t") for line in found.pop("sets"))
    return {**found, **{name: int(sets[name], 16) for name in SETS}}


@pytest.fixture
def of_somebody_else(tmp_path: Path) -> Iterator[Path]:
    """A folder of another user, closed to all others."""
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    (folder / "file").write_text("text")
    (folder / "file").chmod(0o600)
    for path in (folder / "file", folder):
        os.chown(path, NOBODY, NOBODY)
    yield folder


def free_port_of_root() -> int:
    for port in range(FIRST_FREE_PORT - 1, 600, -1):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port below 1024 is free")


def test_nothing_is_kept_where_nothing_is_needed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    found = confined({tmp_path: linux.OWN}, 0, tmp_path / "file")
    assert found[str(tmp_path / "file")] == "text, written"
    assert [found[name] for name in SETS] == [0] * 5


def test_what_belongs_to_somebody_else_is_closed_to_root(
    tmp_path: Path, of_somebody_else: Path
) -> None:
    """Landlock leaves the folder above open here, so that permissions alone decide."""
    secret = of_somebody_else / "file"
    assert confined({tmp_path: linux.READ}, 0, secret)[str(secret)] == "PermissionError"


def test_a_process_keeps_the_right_to_read_its_own_code_wherever_that_is(
    of_somebody_else: Path,
) -> None:
    file = of_somebody_else / "file"
    found = confined({of_somebody_else: linux.READ}, 0, file)
    assert found[str(file)] == "textPermissionError"
    assert [found[name] for name in SETS] == [linux.DAC_READ_SEARCH] * 5


def test_a_bootstrap_node_keeps_the_right_to_write_to_a_home_of_somebody_else(
    of_somebody_else: Path,
) -> None:
    file = of_somebody_else / "file"
    found = confined({of_somebody_else: linux.OWN}, 0, file)
    assert found[str(file)] == "text, written"
    assert [found[name] for name in SETS] == [linux.DAC_OVERRIDE] * 5


def test_a_port_of_root_is_kept_if_the_user_named_it() -> None:
    port = free_port_of_root()
    found = confined({}, port)
    assert found["port"] == "open"
    assert [found[name] for name in SETS] == [linux.NET_BIND_SERVICE] * 5


def test_what_is_needed_is_found_without_a_change(of_somebody_else: Path) -> None:
    before = linux.effective_capabilities()
    assert needed_capabilities({of_somebody_else: linux.READ}) == linux.DAC_READ_SEARCH
    assert needed_capabilities({of_somebody_else.parent / "nothing": linux.OWN}, 5000) == 0
    assert linux.effective_capabilities() == before


def test_real_nodes_of_root_have_no_capability_and_share(tmp_path: Path) -> None:
    port = free_port_of_root()
    a = Member(tmp_path / "a", config(port=port))
    with closing(a):
        b = Member(tmp_path / "b", config(a.addresses()))
        with closing(b):
            rounds(
                [a, b],
                lambda: received_since(a, b.id, 0) and received_since(b, a.id, 0),
                what="sharing",
            )
            for member, kept in ((a, linux.NET_BIND_SERVICE), (b, 0)):
                process = member.process()
                (daemon,) = process.children()
                for one in (process, daemon):
                    lines = Path(f"/proc/{one.pid}/status").read_text().splitlines()
                    sets = dict(line.split(":\t") for line in lines if line.startswith("Cap"))
                    assert {int(sets[name], 16) for name in SETS} == {kept}, one.name()
