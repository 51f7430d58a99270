"""A manifest was called a card: options, files, variables and scripts of that time still work."""

from pathlib import Path

import pytest

from protocol.card import Card
from swarm_node import NodeConfig
from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError
from swarm_node.network.process.keeper import (
    CARDS_FILE,
    EARLIER_CARDS_FILE,
    Keeper,
    cards_file,
    keep_cards,
    load_cards,
)
from swarm_node.settings import BootstrapConfig, section_of
from swarm_node.settings import NodeConfig as Core
from swarm_node.settings.command_line import from_command_line, from_python
from swarm_node.settings.manifest import JoiningConfig
from tests.cards import CHAIN, NETWORK, SWARM, TODAY

CODE = "swarm:AZ"


def joining(*words: str, kind: type = Core) -> JoiningConfig:
    return section_of(from_command_line(kind, list(words), "swarm-node run"), JoiningConfig)


def found(section: JoiningConfig) -> tuple[str, str, str]:
    return section.source.get_secret_value(), section.code.get_secret_value(), section.network


@pytest.mark.parametrize("kind", [Core, BootstrapConfig])
@pytest.mark.parametrize("name", ["--card", "--card.source", "--manifest", "--manifest.source"])
def test_a_flag_by_its_earlier_name_sets_the_same_option(name: str, kind: type) -> None:
    assert found(joining(name, "the.card", kind=kind))[0] == "the.card"


def test_each_flag_of_a_card_has_its_earlier_names_and_no_page_of_help_shows_them(capsys) -> None:
    for code, network in (("--card-code", "--card-network"), ("--card.code", "--card.network")):
        assert found(joining(code, CODE, network, NETWORK)) == ("", CODE, NETWORK)
    for command in ("run", "bootstrap", "swarm sign", "swarm create", "swarm admit"):
        with pytest.raises(SystemExit):
            dispatch([*command.split(), "--help-all"])
        page = capsys.readouterr().out
        assert "--manifest" in page and "--card" not in page, command


def test_a_section_by_its_earlier_name_counts_in_a_file_a_variable_and_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(f'[card]\nsource = "the.card"\nnetwork = "{NETWORK}"\n')
    assert found(joining(str(file))) == ("the.card", "", NETWORK)
    assert found(section_of(from_python(Core, file), JoiningConfig))[0] == "the.card"
    for values in ({"card": {"source": "the.card"}}, {"card": JoiningConfig(source="the.card")}):
        assert found(section_of(NodeConfig(**values), JoiningConfig))[0] == "the.card"
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[card]\nnetwork = "friends"\n')
    with pytest.raises(UserError, match=r"wrong\.toml: card\.network: "):  # as it is written there
        joining(str(wrong))
    # A variable wins over the file, whichever name each of them has
    monkeypatch.setenv("SWARM_NODE_CARD__SOURCE", "other.card")
    assert found(joining(str(file)))[0] == "other.card"
    monkeypatch.setenv("SWARM_NODE_MANIFEST__SOURCE", "other.manifest")
    assert found(joining(str(file)))[0] == "other.manifest"
    assert found(joining(str(file), "--card", "flag.card"))[0] == "flag.card"


def test_a_home_with_the_file_of_an_earlier_version_goes_on_with_it(tmp_path: Path) -> None:
    keep_cards(tmp_path / EARLIER_CARDS_FILE, CHAIN[:2], TODAY)
    assert cards_file(tmp_path) == tmp_path / EARLIER_CARDS_FILE
    said = list[str]()
    keeper = Keeper(
        tmp_path, SWARM, None, None, lambda cards: None, lambda line, _: said.append(line),
        lambda: TODAY,
    )  # fmt: skip
    keeper.renew(CHAIN[2:3])  # what a peer passed on is kept there, too
    chain, newest = load_cards(tmp_path / EARLIER_CARDS_FILE)
    assert chain == tuple(CHAIN[:3]) and isinstance(newest, Card) and newest.number == 3
    assert not (tmp_path / CARDS_FILE).exists() and "manifest 3 of friends" in said[-1]


def test_a_new_home_has_the_present_name_and_a_file_of_that_name_wins(tmp_path: Path) -> None:
    assert cards_file(tmp_path) == tmp_path / CARDS_FILE == tmp_path / "swarm.manifest"
    (tmp_path / EARLIER_CARDS_FILE).write_bytes(b"old")
    (tmp_path / CARDS_FILE).write_bytes(b"new")
    assert cards_file(tmp_path) == tmp_path / CARDS_FILE


def test_a_folder_of_a_signer_of_that_time_is_found_without_naming_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "swarm.card").write_bytes(b"".join(card + b"\n" for card in CHAIN[:2]))
    dispatch(["swarm", "verify", "--network", NETWORK])
    assert "complete, and in force" in capsys.readouterr().out
    dispatch(["swarm", "verify", "--card", "swarm.card", "--network", NETWORK])
    assert "complete, and in force" in capsys.readouterr().out
