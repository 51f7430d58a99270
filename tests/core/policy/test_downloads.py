"""The download of a hub model shows its size before it begins, and bars at a terminal alone."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from swarm_node import starters
from tests.hub_stand_in import Hub, hub_on_loopback

ROOT = Path(__file__).parents[3]
NAME = "nobody/some-model"
# Loads a hub model as a node does; 1 kB counts as large
LOADING = f"""
import sys
from swarm_node.policy import download, named
from swarm_node.policy.loading import load_policy
from swarm_node.settings import ModelConfig
download.SAID_FROM = 1_000
named.say = lambda line: print("SAID", line, file=sys.stderr, flush=True)
load_policy(ModelConfig(name="{NAME}", device="cpu"))
print("LOADED", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def hub():
    with hub_on_loopback() as served:
        folder = starters.folder("rare_small")
        served.files[NAME] = {path.name: path.read_bytes() for path in folder.iterdir()}
        # Weights in another format, of which none is loaded
        served.files[NAME]["original/model.safetensors"] = b"0" * 2_000_000
        yield served


def loaded(hub: Hub, cache: Path, output: int) -> None:
    """Loads the model in a process whose standard error is this descriptor."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("HF_HUB")
    }
    environment |= {"HF_ENDPOINT": hub.address, "HF_HOME": str(cache), "no_proxy": "127.0.0.1"}
    subprocess.run(
        [sys.executable, "-c", LOADING], cwd=ROOT, env=environment, stderr=output, check=True
    )


def read(descriptor: int) -> str:
    """What was written to the other end of a terminal, which is closed."""
    parts = []
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # so the end of a terminal shows on Linux
            part = b""
        if not part:
            return b"".join(parts).decode()
        parts.append(part)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a terminal keeps what was written to it")
def test_a_download_says_its_size_and_draws_bars_on_a_terminal(hub, tmp_path) -> None:
    ours, theirs = pty.openpty()
    # Without a width a bar has no room
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    loaded(hub, tmp_path, theirs)
    os.close(theirs)
    seen = read(ours)
    os.close(ours)
    size = len(hub.files[NAME]["model.safetensors"])
    said, bar, done = (
        seen.index(text)
        for text in (f"SAID getting {NAME} from the hub: {size / 1e9:.1f} GB", "100%", "LOADED")
    )
    assert said < bar < done
    assert "Loading weights" not in seen  # a bar of transformers would stay above the view


@pytest.mark.slow
def test_a_pipe_gets_the_line_and_no_bar_and_what_is_in_the_cache_says_nothing(
    hub, tmp_path
) -> None:
    seen = []
    for name in ("first", "second"):
        with (tmp_path / name).open("w+") as file:
            loaded(hub, tmp_path / "cache", file.fileno())
            file.seek(0)
            seen.append(file.read())
    assert seen[0].startswith(f"SAID getting {NAME}") and "%" not in seen[0]
    assert "SAID" not in seen[1] and "LOADED" in seen[1]
