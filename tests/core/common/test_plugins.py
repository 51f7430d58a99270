"""Registered plug-ins, and the messages for unknown ones."""

import importlib.metadata
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from swarm_node.common import plugins
from swarm_node.common.errors import UserError


def test_code_newer_than_its_installation_says_to_install_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A checkout of 0.1.0 that was installed in place and pulled registers nothing."""
    monkeypatch.setattr(plugins, "_points", importlib.metadata.EntryPoints)
    plugins.registered.cache_clear()
    with pytest.raises(UserError, match="run make install, or pip install again"):
        plugins.target("environments", "reasoning_gym")
    monkeypatch.undo()
    assert plugins.target("environments", "reasoning_gym").startswith("swarm_node.environments.")


def test_a_kind_that_has_no_group_has_no_registered_names() -> None:
    assert plugins.registered("no_such_group") == {}
    with pytest.raises(UserError, match="names are none"):
        plugins.target("no_such_group", "anything")


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs entry points of another package beside those that are there."""
    ours = [point for kind in plugins.GROUPS for point in plugins.registered(kind).values()]

    def install(*points: EntryPoint) -> None:
        monkeypatch.setattr(plugins, "_points", lambda: EntryPoints([*ours, *points]))
        plugins.registered.cache_clear()

    yield install
    monkeypatch.undo()
    plugins.registered.cache_clear()


def test_a_package_that_registers_in_a_group_that_is_gone_is_told_so_in_a_line(
    other: Callable[..., None],
) -> None:
    assert plugins.gone() == []
    other(
        EntryPoint("louder", "theirs:Louder", "swarm_node.samplers"),
        EntryPoint("watch", "theirs:watch", "swarm_node.observers"),
        EntryPoint("quiet", "theirs:Quiet", "swarm_node.defences"),
    )
    assert "louder" in plugins.registered("samplers")
    assert plugins.registered("defences") == {}
    assert [line.split(", which")[0] for line in plugins.gone()] == [
        "a package registers quiet in swarm_node.defences",
        "a package registers watch in swarm_node.observers",
    ]


def test_a_table_has_what_ships_and_a_file_has_the_rest(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("QUIET = 3\n")
    assert plugins.chosen("numbers", "loud", {"loud": 9}) == 9
    assert plugins.chosen("numbers", f"{tmp_path / 'mine.py'}:QUIET", {"loud": 9}) == 3
    with pytest.raises(UserError, match=r"numbers: .* cannot be loaded"):
        plugins.chosen("numbers", f"{tmp_path / 'mine.py'}:MISSING", {"loud": 9})
