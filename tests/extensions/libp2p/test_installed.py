"""Without the library, the backend libp2p is refused in one line that says what to do."""

import sys
from pathlib import Path

import pytest

from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("run", "--network.backend", "libp2p"), r"pip install 'swarm-node\[libp2p\]'"),
        (("bootstrap", "--backend", "libp2p", "--port", "0", "--host", "127.0.0.1"), "backend hivemind"),
    ],
)
def test_a_backend_that_is_not_installed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], remedy: str
) -> None:
    monkeypatch.setitem(sys.modules, "libp2p", None)  # what the import system takes for missing
    with pytest.raises(UserError, match=remedy) as caught:
        dispatch([*arguments, "--home", str(tmp_path)])
    assert "\n" not in str(caught.value)
