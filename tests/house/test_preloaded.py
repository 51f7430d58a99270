"""A program that starts in a process with torch loaded behaves as in a new interpreter."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import preloaded
from tests.waiting import PATIENCE, until

PROBE = """
import os, sys, time
loaded = [name in sys.modules for name in ("torch", "swarm_node")]
print(*loaded, os.getcwd(), sys.argv[1:], os.environ.get("A"))
print(sys.stdin.read().upper(), file=sys.stderr)
if sys.argv[1] == "wait":
    open("pid", "w").write(str(os.getpid()))
    time.sleep(600)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "probe.py").write_text(PROBE)
    return tmp_path


def start(folder: Path, argument: str, **more: str) -> "subprocess.Popen[str]":
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    line = [*preloaded.python(), "-m", "probe", argument]
    return subprocess.Popen(line, cwd=folder, text=True, env={**os.environ, **more}, **streams)


@pytest.mark.slow
def test_streams_folder_arguments_environment_and_exit_code_are_those_of_the_start(
    folder: Path,
) -> None:
    # As torch sets it in a worker
    process = start(folder, "7", A="b", TORCHINDUCTOR_CACHE_DIR="/tmp/torch")
    output, errors = process.communicate("typed")
    assert (output, errors, process.returncode) == (f"True False {folder} ['7'] b\n", "TYPED\n", 7)


@pytest.mark.slow
def test_what_libraries_read_when_they_are_imported_makes_it_a_start_of_the_interpreter(
    folder: Path,
) -> None:
    output, _ = start(folder, "0", HF_HOME="/elsewhere").communicate("")
    assert output.startswith("False False")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_reaches_it_and_none_is_left_behind(folder: Path, number: signal.Signals) -> None:
    process = start(folder, "wait")
    process.stdin.close()
    until(lambda: (folder / "pid").is_file() and (folder / "pid").read_text())
    process.send_signal(number)
    assert process.wait(PATIENCE) == -number
    until(lambda: not Path(f"/proc/{(folder / 'pid').read_text()}").exists())
