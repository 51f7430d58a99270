"""Each layer of the sandbox by itself, in real processes."""

import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from swarm_node.scoring import sandbox
from swarm_node.scoring.sandbox import LAYERS, Sandbox
from tests.commands import python

linux = pytest.mark.skipif(sys.platform != "linux", reason="layers of Linux")


def inside(layers: Sequence[str], act: Callable[[], object]) -> str:
    """The name of what `act` raises in a child under these layers; "" if nothing."""
    here = Sandbox()
    here._steps = {name: step for name, step in here._steps.items() if name in layers}
    parent, (results, child_end) = os.getpid(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(child_end, 3)
        here.enter(parent, 5)
        raised = ""
        try:
            act()
        except BaseException as error:  # noqa: BLE001
            raised = type(error).__name__
        os.write(3, f"{raised}!".encode())
        os._exit(0)
    os.close(child_end)
    said = os.read(results, 100)
    os.close(results)
    os.waitpid(pid, 0)
    assert said.endswith(b"!"), "the child never came to act"
    return said[:-1].decode()


def write_a_file() -> None:
    Path("/tmp/written-by-a-sandboxed-child").write_text("x")


def read_a_file() -> None:
    Path(__file__).read_text()


def connect() -> None:
    with socket.socket() as connection:
        connection.connect(("127.0.0.1", 9))


def signal_the_parent() -> None:
    os.kill(os.getppid(), 0)


@pytest.mark.slow
@linux
@pytest.mark.parametrize("act", [write_a_file, read_a_file, connect])
@pytest.mark.parametrize("layer", ["rlimits", "seccomp", "landlock"])
def test_each_layer_by_itself_keeps_files_and_sockets_away(
    layer: str, act: Callable[[], None]
) -> None:
    if not sandbox.layers()[layer]:
        pytest.skip(f"no {layer} here")
    alone = [layer] if layer == "rlimits" else ["no_new_privs", layer]
    raised = inside(alone, act)
    if act is connect and layer == "landlock":
        # Landlock restricts TCP from Linux 6.7 on
        assert raised in ("PermissionError", "ConnectionRefusedError")
    else:
        assert raised in ("OSError", "PermissionError")
    assert not Path("/tmp/written-by-a-sandboxed-child").exists()


@linux
def test_signals_and_children_are_refused() -> None:
    if not sandbox.layers()["seccomp"]:
        pytest.skip("no seccomp here")
    assert inside(LAYERS, signal_the_parent) == inside(LAYERS, os.fork) == "PermissionError"


def test_all_layers_let_ordinary_work_through() -> None:
    def work() -> None:
        assert sum(sorted(range(10**5), reverse=True)) == len("x" * (10**5 - 1)) * 10**5 // 2
        assert sorted(map(str, {1: "a", 2: "b"})) and float("1e3") and bytearray(10**7)

    assert inside(LAYERS, work) == ""


@linux
def test_a_child_whose_scoring_process_is_gone_scores_nothing() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            Sandbox().enter(1 if os.getppid() != 1 else 2, 5)
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_what_is_missing_is_said_in_one_line() -> None:
    found = sandbox.layers()
    assert tuple(found) == LAYERS and found["rlimits"]
    assert sandbox.describe(dict.fromkeys(LAYERS, True)) == (
        "scoring sandbox: rlimits, pdeathsig, no_new_privs, seccomp, landlock"
    )
    line = sandbox.describe(dict.fromkeys(LAYERS, True) | {"landlock": False})
    assert line == (
        "scoring sandbox: rlimits, pdeathsig, no_new_privs, seccomp; not on this system: landlock"
    )


@pytest.mark.slow
@linux
def test_a_confined_process_may_have_a_folder_of_its_own_and_no_file(tmp_path: Path) -> None:
    words = "import tempfile, pathlib\nfrom swarm_node.scoring.confinement import confine\n"
    words += "confine(2**34)\nfolder = tempfile.mkdtemp()\nprint(folder, flush=True)\n"
    words += "(pathlib.Path(folder) / 'file').write_text('x')\n"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = python("-c", words, env=environment)
    (folder,) = tmp_path.iterdir()  # without a home, matplotlib needs a folder here to load
    assert (done.stdout.strip(), "File too large" in done.stderr) == (str(folder), True), (
        done.stderr
    )
