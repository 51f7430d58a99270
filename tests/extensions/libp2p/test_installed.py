"""Without the library, the backend libp2p is refused in one line that says what to do."""

from pathlib import Path

import pytest

from tests.commands import python

# None is what the import system takes for missing.
PROGRAM = "import sys; sys.modules['libp2p'] = None; from swarm_node.commands.cli import main; main()"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("run", "--network.backend", "libp2p"), "pip install 'textswarm[libp2p]'"),
        (("bootstrap", "--backend", "libp2p", "--port", "0", "--host", "127.0.0.1"), "backend hivemind"),
    ],
)
def test_a_backend_that_is_not_installed_is_one_line(tmp_path: Path, arguments: tuple[str, ...], remedy: str) -> None:
    ended = python("-c", PROGRAM, *arguments, "--home", tmp_path)
    assert ended.returncode == 2 and remedy in ended.stderr.splitlines()[-1] and "Traceback" not in ended.stderr
