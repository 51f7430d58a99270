"""A command ends with 75 if the cause may pass by itself, with 2 if the user must act: real causes,
real processes.
"""

import fcntl
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.mistakes import Mistake, faults, started

pytestmark = pytest.mark.slow
NOBODY = "http://127.0.0.1:9"  # the port of `discard`: nobody listens
NO_HUB = f"HF_HUB_OFFLINE= HF_ENDPOINT={NOBODY} HF_HOME=hub"
EMPTY = f"{NO_HUB} XDG_CACHE_HOME=cache"
QUIET = "2> >(grep -v ^starting >&2)"
FULL = (
    "unshare -rm sh -c 'mkdir full && mount -t tmpfs -o size=4k none full && head -c 4096 "
    "/dev/zero >full/x && {}'"
)
MISTAKES = {
    "an output on a full disk": (75, "swarm-node --version >/dev/full", "the disk is full"),
    "an identity on a full disk": (
        75,
        FULL.format("swarm-node home id --home full"),
        "No space left on device",
    ),
    "a backup on a full disk": (
        75,
        FULL.format("swarm-node home backup full/b --home {home}"),
        "nothing was written",
    ),
    "a node in this home": (
        75,
        "swarm-node run --home {busy} --model.name rare",
        "another node runs in",
    ),
    "a restore over a node that runs": (
        75,
        "swarm-node home restore x --home {busy}",
        "a node runs in",
    ),
    "a port that is taken": (
        75,
        "swarm-node bootstrap --home b --port {port} " + QUIET,
        "another program uses it",
    ),
    "a hub that cannot be reached": (
        75,
        f"{NO_HUB} swarm-node check --model.name no/body",
        "Connection refused",
    ),
    "a hub that cannot be reached for a model by its short name": (
        75,
        f"{EMPTY} swarm-node check --model.name smollm2-135m",
        "Connection refused",
    ),
    "a hub that must not be asked": (
        2,
        "HF_HUB_OFFLINE=1 swarm-node check --model.name no/body",
        "HF_HUB_OFFLINE is",
    ),
    "an address of another machine": (
        2,
        "swarm-node bootstrap --home b --host 192.0.2.1 --port 4 " + QUIET,
        "no such address",
    ),
    "a key that others can read": (
        2,
        "cp -r {home} h; chmod 644 h/*.key; swarm-node home id --home h",
        "chmod 600",
    ),
    "a home that is a file": (2, "touch f; swarm-node bootstrap --home f", "f is a file"),
    "a damaged backup": (
        2,
        "echo x >x; swarm-node home restore x --home r",
        "is not a whole backup",
    ),
    "a model that is not there": (2, "swarm-node run --model.name ./gone", "does not exist"),
}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """A port and a home that are in use, and a home that is free."""
    folder = tmp_path_factory.mktemp("given")
    busy, home = folder / "busy", folder / "home"
    assert started(Mistake(0, f"swarm-node home id --home {home}", "")).code == 0
    shutil.copytree(home, busy)
    with closing(socket.create_server(("0.0.0.0", 0))) as port, (busy / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield {"busy": busy, "home": home, "port": port.getsockname()[1]}


@pytest.mark.parametrize("cause", MISTAKES)
def test_the_exit_code_says_whether_the_cause_may_pass(cause, given, tmp_path) -> None:
    code, typed, words = MISTAKES[cause]
    assert faults([Mistake(code, typed.format(**given), words)], started, tmp_path / "tried") == []
