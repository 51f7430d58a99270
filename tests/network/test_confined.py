"""The processes that talk to strangers hold what they need, and nothing else: forty attempts are
made from inside.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.identity import Identity
from swarm_node.common import linux
from swarm_node.common.errors import UserError
from swarm_node.network.transport.backends import HostOptions
from swarm_node.network.transport.p2pd import Daemon, program
from swarm_node.settings import NetworkConfig
from tests.commands import python
from tests.network import forbidden
from tests.network.members import Member, closing, config, received_since, rounds

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(
        sys.platform != "linux" or linux.landlock() < linux.SIGNALS_SINCE, reason="no Landlock 6"
    ),
]
AT_LEAST = 60
LAYERS = ["rlimits", "no_new_privs", "capabilities", "landlock", "seccomp"]


@pytest.fixture
def user(tmp_path: Path) -> Iterator[list[str]]:
    """A home, a folder for sockets and an ssh key, as arguments; the test's own process is the
    trainer.
    """
    home, sockets, secret = tmp_path / "home", tmp_path / "sockets", tmp_path / "ssh" / "id_ed25519"
    for file in (home / "identity.key", home / "checkpoint" / "model.safetensors", secret):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"a secret of the user")
    sockets.mkdir()
    before = signal.signal(
        signal.SIGUSR1, lambda *_: pytest.fail("a confined process signalled the trainer")
    )
    yield [str(home), str(sockets), str(secret)]
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("who", ["hivemind", "libp2p", "p2pd"])
def test_what_a_process_that_talks_to_strangers_may_not_do(who: str, user: list[str]) -> None:
    done = python("-m", "tests.network.forbidden", who, *user)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["layers"] == LAYERS
    assert len(answer["found"]) >= AT_LEAST
    assert {
        name: what for name, what in answer["found"].items() if not what.startswith("refused")
    } == {}
    assert Path(user[2]).read_bytes() == b"a secret of the user"


def test_the_attempts_work_where_nothing_forbids_them(user: list[str]) -> None:
    """Without confinement the attempts succeed; else the test above could not fail."""
    done = python("-m", "tests.network.forbidden", "nothing", *user)
    found = json.loads(done.stdout)["found"]
    had = {name for name, what in found.items() if what.startswith("had")}
    # An older kernel, or the file system of the temporary folder, may not have these
    newer = {
        name
        for name, what in found.items()
        if name in forbidden.OF_NEWER_SYSTEMS and ("not implemented" in what or "not supp" in what)
    }
    assert found and found.keys() - had - newer == set()


def test_real_nodes_are_confined_know_no_secret_of_the_environment_and_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "WANDB_API_KEY",
        "SSH_AUTH_SOCK",
        "HTTPS_PROXY",
    ):
        monkeypatch.setenv(name, "a-secret-of-the-user")
    a = Member(tmp_path / "a", config())
    with closing(a):
        b = Member(tmp_path / "b", config(a.addresses()))
        with closing(b):
            rounds(
                [a, b],
                lambda: received_since(a, b.id, 0) and received_since(b, a.id, 0),
                what="sharing",
            )
            process = a.process()
            (daemon,) = process.children()
            for each in (process, daemon):
                status = Path(f"/proc/{each.pid}/status").read_text()
                assert "\nNoNewPrivs:\t1\n" in status and "\nSeccomp:\t2\n" in status, each.name()
                assert "a-secret-of-the-user" not in each.environ().values()
            assert a.view()["confined"] == LAYERS
    assert os.environ["HF_TOKEN"] == "a-secret-of-the-user"


async def test_another_daemon_is_tried_at_the_start(tmp_path: Path) -> None:
    """It is confined as the usual daemon is. A program that is no daemon gives an error of one line
    with its name.
    """
    copy = Path(shutil.copy(program(), tmp_path / "mine"))

    options = HostOptions(
        NetworkConfig(p2pd=str(copy)), Identity.create(), ["/ip4/127.0.0.1/tcp/0"]
    )
    daemon = await Daemon.start(options)
    assert os.readlink(f"/proc/{daemon.pid}/exe") == str(copy)
    assert "\nSeccomp:\t2\n" in Path(f"/proc/{daemon.pid}/status").read_text()
    await daemon.stop()
    for wrong in ("/bin/true", "/nowhere/p2pd"):
        with pytest.raises(UserError, match=f"{wrong}.*(cannot run here|did not start)"):
            await Daemon.start(replace(options, config=NetworkConfig(p2pd=wrong)))
