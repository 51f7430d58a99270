"""The pages of help: one list of commands, options that exist, a screen for each."""

import re
from pathlib import Path

import pytest

from swarm_node.commands.cli import commands_page, dispatch
from swarm_node.commands.table import COMMANDS, group, load

ROOT = Path(__file__).parents[3]
LINES, COLUMNS = 40, 80  # a page that needs more lines than that is no overview


def test_the_list_of_commands_and_their_page_have_one_order() -> None:
    listed = [
        f"{first} {member}".strip()
        for first, members in re.findall(r"^  ([a-z]+) ([a-z|]*)", commands_page(), re.MULTILINE)
        for member in (members.split("|") if group(first) else [""])
    ]
    assert listed == list(COMMANDS)
    table = (ROOT / "docs" / "reference" / "commands.md").read_text()
    rows = re.findall(r"^\| `swarm-node ([a-z]+)(?: ([a-z]+))?", table, re.MULTILINE)
    assert [f"{first} {second}" if group(first) else first for first, second in rows] == list(
        COMMANDS
    )


@pytest.mark.parametrize("command", ["", "home", "model", "swarm", "task", "view", *COMMANDS])
def test_a_page_of_help_fits_a_screen(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    dispatch([*command.split(), "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < LINES
    assert max(map(len, lines)) <= COLUMNS
    assert not command or (
        f"swarm-node {command} " in lines[0].replace("[run]", "run") and "--help-all" in lines[-1]
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_of_all_options_fits_80_columns_and_has_those_of_the_short_one(
    command, capsys, monkeypatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    with pytest.raises(SystemExit) as ended:
        dispatch([*command.split(), "--help-all"])
    assert ended.value.code == 0
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= COLUMNS
    assert options(load(COMMANDS[command]).page) - {"--flags"} <= options(page)


def options(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9.-]*[a-z0-9]", text))
