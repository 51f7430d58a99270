"""Registered plug-ins, and the messages for unknown ones."""

import importlib.metadata

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


def test_a_group_in_which_nothing_is_registered_has_no_names() -> None:
    assert plugins.registered("no_such_group") == {}
    with pytest.raises(UserError, match="There are none"):
        plugins.target("no_such_group", "anything")
