"""Sections of options that other packages bring: where they appear, and what another process makes
of them.
"""

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

import swarm_node
from protocol.messages import PeerId
from swarm_node.common import plugins
from swarm_node.common.errors import UserError
from swarm_node.node.generator import GENERATOR, GeneratorSetup, settings_for
from swarm_node.settings import (
    AskConfig,
    CheckConfig,
    LearningConfig,
    NodeConfig,
    section_of,
)
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.options import options
from swarm_node.settings.plugged import plugged_sections
from swarm_node.settings.sections import Section
from tests.commands import resolve


class BakeryConfig(Section):
    """Bread."""

    serves: ClassVar[tuple[type[Section], ...]] = (LearningConfig,)

    loaves: int = 2
    """Loaves of a day."""
    dear_flour: bool = False
    """Bake with it."""


Register = Callable[..., None]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Registers sections as if an installed package did."""
    registered, load = plugins.registered, plugins.load

    def register(**sections: type[Section]) -> None:
        monkeypatch.setattr(
            plugins, "registered", lambda kind: sections if kind == "settings" else registered(kind)
        )
        monkeypatch.setattr(
            plugins,
            "load",
            lambda kind, name: sections[name] if kind == "settings" else load(kind, name),
        )
        options.cache_clear()

    yield register
    options.cache_clear()


def test_a_section_is_set_by_file_variable_and_flag_where_it_serves(
    tmp_path: Path, register: Register
) -> None:
    register(bakery=BakeryConfig)
    file = tmp_path / "node.toml"
    file.write_text("[bakery]\nloaves = 3\n")
    assert section_of(resolve(NodeConfig, file, {}), BakeryConfig).loaves == 3
    assert (
        section_of(
            resolve(NodeConfig, file, {"SWARM_NODE_BAKERY__LOAVES": "4"}), BakeryConfig
        ).loaves
        == 4
    )
    found = from_command_line(CheckConfig, [str(file), "--bakery.loaves", "5"], "swarm-node check")
    assert isinstance(found, CheckConfig) and found.model_extra == {
        "bakery": BakeryConfig(loaves=5)
    }
    with pytest.raises(UserError, match="unknown key 'bakery"):
        resolve(AskConfig, file, {})


def test_the_section_of_a_package_that_is_absent_is_an_unknown_key_in_one_line(
    tmp_path: Path, register: Register
) -> None:
    register()
    assert plugged_sections(NodeConfig) == {}
    file = tmp_path / "node.toml"
    file.write_text("[bakery]\nloaves = 3\n")
    with pytest.raises(UserError) as caught:
        resolve(NodeConfig, file, {})
    assert str(caught.value).startswith(f"{file}: unknown key 'bakery'") and "\n" not in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--training.bakery.loaves", "--bakery.loaves"),
        ("--training.bakery-loaves", "--bakery.loaves"),
        ("--training.bakery", "--bakery.loaves"),
        ("--dear.flour", "--bakery.dear-flour"),
        ("--training.dear-flour", "--bakery.dear-flour"),
    ],
)
def test_an_option_that_moved_is_answered_with_its_new_name(
    register: Register, old: str, new: str
) -> None:
    register(bakery=BakeryConfig)
    with pytest.raises(UserError) as caught:
        from_command_line(NodeConfig, [old, "1"], "swarm-node run")
    assert str(caught.value) == f"swarm-node run has no option {old}; did you mean {new}?"


def test_a_configuration_with_such_a_section_passes_to_other_processes(register: Register) -> None:
    register(bakery=BakeryConfig)
    assert "bakery" not in NodeConfig.model_fields
    config = NodeConfig.model_validate({"bakery": {"loaves": 6}, "seed": 3})
    assert type(config) is NodeConfig and config.model_fields_set == {"bakery", "seed"}
    assert pickle.loads(pickle.dumps(config)) == config
    told = GENERATOR.down.decode(
        GENERATOR.down.encode(GeneratorSetup(settings_for(config), PeerId("peer"), 0, []))[4:]
    )
    assert (
        isinstance(told, GeneratorSetup)
        and section_of(told.config, BakeryConfig).loaves == 6
        and told.config.seed == 3
    )


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"bakery": {"loaves": "x"}}, "bakery.loaves: must be a valid integer"),
        ({"bakery": {"loafs": 1}}, "bakery has no option 'loafs'; did you mean 'loaves'?"),
        ({"bakery": 3}, "bakery: must be a section, with keys of its own, not 3"),
        ({"bakary": {}}, "NodeConfig has no option 'bakary'; did you mean 'bakery'?"),
        ({"bakary": {}, "seed": "x"}, "not 'x'; NodeConfig has no option 'bakary'"),
    ],
)
def test_a_mistake_in_such_a_section_is_told_as_in_every_other(
    register: Register, given: dict[str, object], line: str
) -> None:
    register(bakery=BakeryConfig)
    with pytest.raises(UserError) as caught:
        swarm_node.NodeConfig(**given)  # type: ignore[arg-type]
    assert line in str(caught.value)


def test_a_configuration_without_the_section_has_its_defaults(register: Register) -> None:
    register()
    assert (
        section_of(NodeConfig(), BakeryConfig) == BakeryConfig() and NodeConfig().model_extra == {}
    )
