"""The pages of docs/reference say what the code says."""

import re
import tomllib
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from protocol.card import Refusal, told
from protocol.member import ProofFault
from protocol.messages import Reason
from swarm_node.commands import cli
from swarm_node.commands.doctor import verdict
from swarm_node.commands.table import COMMANDS, group, load
from swarm_node.common import plugins
from swarm_node.common.errors import Finding, Severity, UserError
from swarm_node.network.exchange.knowledge import PeerView
from swarm_node.network.process.runner import BootstrapNode
from swarm_node.network.process.service import REACHABILITY
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.flags import find_flag, flags_of
from swarm_node.settings.options import describe
from swarm_node.simulation.folder import PATTERNS
from tests.house.messages import messages
from tests.pages import REFERENCE, rows, script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def make() -> ModuleType:
    return script(REFERENCE / "make.py")


OF_OTHERS = {
    "--local-dir",
    "--repo-type",
    "--force-reinstall",
    "--logprobs-mode",
    "--no-deps",
}  # hf, pip, vllm
OF_OTHERS |= {"--help", "--help-all"}  # every command
FLAG = re.compile(r"(?<![\w-])--[a-z][\w.…-]*")
COMMAND = re.compile(r"swarm-node ([a-z]+)(?: ([a-z]+))?")
SENTENCES = {
    ("is", "not"),
    ("writes", "it"),
}  # "swarm-node is not installed", "as swarm-node writes it"


def test_each_message_of_the_code_is_one_line() -> None:
    said = messages()
    assert len(said) > 300, "the walker has lost sight of messages"
    assert [text for text in said if "\n" in text] == []


def test_each_flag_that_a_message_names_exists() -> None:
    known = [flags_of(kind) for entry in COMMANDS.values() if (kind := load(entry).options)]
    named = {flag.rstrip(".") for text in messages() for flag in FLAG.findall(text)}
    whole = {flag for flag in named if "…" not in flag}
    assert len(whole) > 50
    for flag in whole - OF_OTHERS:
        assert any(takes(flags, flag) for flags in known), flag


def test_each_command_that_a_message_names_exists() -> None:
    """A word behind the name that is no command is one of the sentence: "swarm-node is not"."""
    named = {pair for text in messages() for pair in COMMAND.findall(text)} - SENTENCES
    assert len(named) > 10
    for first, member in named:
        if group(first) and not member:  # "swarm-node home …": which one is known when it runs
            continue
        assert (f"{first} {member}" if group(first) else first) in COMMANDS, (first, member)


REFUSED = [
    ("Groups of others that are refused", Reason),
    ("Manifests that are refused", Refusal),
    ("Proofs of membership that are refused", ProofFault),
]


@pytest.mark.parametrize(("heading", "reasons"), REFUSED)
def test_each_reason_to_refuse_is_explained(heading: str, reasons: type[StrEnum]) -> None:
    assert list(rows("status.md", heading)) == [told(reason) for reason in reasons]


def takes(flags: Any, flag: str) -> bool:
    try:
        return bool(find_flag(flags, flag, ""))
    except UserError:
        return False


def test_the_pages_made_from_the_code_are_up_to_date(make: ModuleType) -> None:
    for path, text in make.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: make reference"


def test_every_option_event_and_field_is_explained(make: ModuleType) -> None:
    for kind in make.COMMANDS.values():
        assert [name for name, text in describe(kind).items() if not text] == []
    for path, text in make.pages().items():
        assert [line for line in text.splitlines() if re.search(r"\| +\|", line)] == [], path.name
        assert not re.search(r"^\w+\(.*\)$", text, re.MULTILINE), (
            f"{path.name}: a dataclass without a docstring"
        )


# Names of options that have a longer one, too
SHORT = {"--peers", "--json", "--attack", "--defence"}


def test_the_flags_on_the_page_are_those_of_the_command_line(
    make: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, kind in make.COMMANDS.items():
        rows = [
            row
            for row in (REFERENCE / "options.md").read_text().splitlines()
            if row.startswith("| `")
        ]
        taken = [
            row for row in rows if command in row.rsplit(" | ", 1)[1].removesuffix(" |").split(", ")
        ]
        written = {
            found.group(1) for row in taken if (found := re.search(r"\| `(--[\w.-]+)` \|", row))
        }
        with pytest.raises(SystemExit):
            from_command_line(kind, ["--help"], command)
        shown = re.findall(r"^[^\w\n]*?(--\w.*)$", capsys.readouterr().out, re.MULTILINE)
        # Of each option, with its short names
        known = [set(re.findall(r"--\w[\w.-]+", line)) for line in shown]
        assert written <= set().union(*known), command
        switches = [
            names for names in known if not all(re.search(r"(--|\.)no-", name) for name in names)
        ]
        assert [names for names in switches if not names & (written | SHORT | {"--help"})] == [], (
            command
        )


def test_the_page_of_plug_ins_has_the_groups_of_entry_points_that_are_read() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    text = (ROOT / "docs" / "how-to" / "plugins.md").read_text()
    listed = re.findall(r"^\| `swarm_node\.(\w+)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(plugins.GROUPS)
    # A section is another package's alone
    assert {*groups} == {f"swarm_node.{kind}" for kind in plugins.GROUPS} - {"swarm_node.settings"}


def test_the_index_names_every_page() -> None:
    pages = {page.name for page in REFERENCE.glob("*.md")} - {"README.md"}
    index = (REFERENCE / "README.md").read_text()
    assert set(re.findall(r"\((\w+\.md)\)", index)) == pages


def test_peers_and_bootstrap_nodes_of_a_status_have_the_fields_of_the_page() -> None:
    assert [field.name for field in fields(PeerView)] == list(rows("status.md", "peers"))
    assert [field.name for field in fields(BootstrapNode)] == list(
        rows("status.md", "bootstrap_nodes")
    )
    assert set(re.findall("`([^`]+)`", rows("status.md", "network")["reachability"])) == {
        *REACHABILITY,
        "starting",
    }


def test_a_report_folder_holds_the_files_of_the_page() -> None:
    assert {*PATTERNS} == rows("home.md", "The folder of a report").keys()


def codes(text: str) -> set[int]:
    return {int(code) for code in re.findall(r"`(\d+)`", text)}


def test_commands_end_with_the_codes_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    every, own = rows("exit_codes.md", "Of every command"), rows("exit_codes.md", "Of each command")
    assert own.keys() == COMMANDS.keys()
    raised = {
        UserError("no"): 2,
        OSError(28, "full"): 75,
        KeyboardInterrupt(): 130,
        BrokenPipeError(): 141,
    }
    assert codes(" ".join(f"`{code}`" for code in every)) == {0, 1, *raised.values()}
    assert (
        codes(own["doctor"])
        == {verdict([Finding("", level, "")])[0] for level in Severity}
        == {0, 1, 3}
    )
    assert codes(own["status"]) == {0, 1}
    for error, code in raised.items():

        def fails(argv: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(cli, "dispatch", fails)
        assert cli.outcome([]) == code
