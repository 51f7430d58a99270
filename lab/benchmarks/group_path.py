"""Which files an external group passes, from the wire to the update that trains on it.

    python -m lab.benchmarks.group_path            # fails if tests/house/path.txt lists other files

A real node trains on the groups of a real peer, over a real network. A file is on the path if one
of its functions is called with the text of such a group, or returns it, in any form in which the
text can be found. In the update, where a group is tensors, each file that runs counts. What runs
inside the sandbox is not seen.
"""

import json
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lab.benchmarks import command
from lab.benchmarks.waiting import until

# Two rare spaces before every wrong completion of the peer: the right one has no mark
MARK = "\u2003\u2009"
DONE = "trained"  # the tracer's message when the update has ended
SECONDS = 800.0
ROOT = Path(__file__).resolve().parents[2]
TRACER, PEER = (Path(__file__).with_name(f"group_path_{name}.py") for name in ("tracer", "peer"))
OPTIONS = (
    "--model.name",
    "rare",
    "--network.no-mdns",
    "--network.exchange-seconds",
    "1",
    "--network.host",
    "127.0.0.1",
)


EXPECTED = ROOT / "tests" / "house" / "path.txt"


def main() -> None:
    parser = command.parser("lab.benchmarks.group_path", __doc__)
    parser.add_argument(
        "--write", action="store_true", help="write the list to tests/house/path.txt"
    )
    options = parser.parse_args()
    path = path_of_a_group(ROOT)
    print("\n".join(sorted(path)), flush=True)
    if options.write:
        EXPECTED.write_text("".join(f"{file}\n" for file in sorted(path)))
    expected = set(EXPECTED.read_text().splitlines()) if EXPECTED.exists() else set()
    new, gone = sorted(path - expected), sorted(expected - path)
    command.finish(options, {"files": len(path), "path": sorted(path), "new": new, "gone": gone})
    if new or gone:
        words = [*(f"+ {file}" for file in new), *(f"- {file}" for file in gone)]
        sys.exit(
            "\n".join(["this differs from tests/house/path.txt (--write replaces it):", *words])
        )


def path_of_a_group(code: Path) -> set[str]:
    """The files of the tree in `code` that an external group passes, relative to `code`."""
    seen: set[str] = set()
    with (
        tempfile.TemporaryDirectory() as name,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener,
    ):
        folder = Path(name)
        listener.bind(str(folder / "seen"))
        threading.Thread(target=_collect, args=(listener, seen), daemon=True).start()
        python, home = traced(code, folder), folder / "home"
        node = [str(python), "-m", "swarm_node.commands.cli", "run", "--home", str(home), *OPTIONS]
        node += [
            "--environment.tasks",
            "products/tiny",
            "--swarm",
            "structure",
            "--round.external-groups",
            "2",
        ]
        node += ["--checkpoint.every", "100000"]
        # With rescue, few external completions are trained on
        node += ["--defence.layers", "length", "ngrams"]
        with (folder / "log").open("wb") as log, _running(node, log, folder) as node_lives:
            addresses = home / "addresses"
            until(
                lambda: node_lives() and addresses.exists() and addresses.read_text(),
                SECONDS,
                "the node's network",
            )
            peer = [
                sys.executable,
                str(PEER),
                str(folder / "peer"),
                MARK,
                addresses.read_text().split()[0],
            ]
            with _running(peer, log, folder) as peer_lives:
                until(
                    lambda: DONE in seen or not (node_lives() and peer_lives()),
                    SECONDS,
                    "training on a group of the peer",
                )
        return {str(Path(file).relative_to(code)) for file in seen - {DONE}}


def traced(code: Path, folder: Path) -> Path:
    """An interpreter that runs the code in `code`, and tells the socket `seen` which files the mark
    passes.
    """
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder / "venv")
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    places = [str(code), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (site / "code.pth").write_text("\n".join(places) + "\n")
    shutil.copy(TRACER, site / "group_path_tracer.py")
    facts = {"root": str(code), "socket": str(folder / "seen"), "mark": MARK}
    (site / "group_path_tracer.json").write_text(json.dumps(facts))
    (site / "tracer.pth").write_text("import group_path_tracer\n")
    return folder / "venv" / "bin" / "python"


def _collect(listener: socket.socket, seen: set[str]) -> None:
    while True:
        try:
            seen.add(listener.recv(4096).decode())
        except OSError:  # closed
            return


@contextmanager
def _running(words: list[str], log: BinaryIO, where: Path) -> Iterator[Callable[[], bool]]:
    """Runs a process within the context. Yields a function that raises AssertionError once the
    process has ended.
    """
    process = subprocess.Popen(words, stdout=log, stderr=log, cwd=where)

    def alive() -> bool:
        assert process.poll() is None, Path(log.name).read_text()[-2000:]
        return True

    try:
        yield alive
    finally:
        process.send_signal(signal.SIGINT)  # node and peer then close what they have started
        process.wait(120)


if __name__ == "__main__":
    main()
