"""Commands that are printed for a user to copy are quoted for a shell, wherever that is."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from swarm_node.common.shell import at_home, typed

ROOT = Path(__file__).parents[3] / "swarm_node"
# The beginning of a command, up to a value that is put into it
COMMAND = re.compile(r"(swarm-node (?!COMMAND)[a-z][^;:,()]*|--home |chmod \d+ |hf download )$")
# Names of commands and of things that have no spaces: by file, what is put in
PLAIN = {
    "commands/cli.py": {"name"},
    "commands/table.py": {"RENAMED.get(name, near)"},
    "home/backup.py": {"command"},
    "swarm/signing.py": {"does", "name", "usage"},
    "environments/dataset/hub.py": {"repository"},
    "policy/named.py": {"name"},
    "commands/status.py": {"command"},
}


def unquoted(source: str) -> list[str]:
    """What is put into a printed command as it is."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                before += str(part.value)
            elif isinstance(part, ast.FormattedValue):
                value = ast.unparse(part.value)
                if COMMAND.search(before) and not re.match(r"(typed|at_home|shlex\.\w+)\(", value):
                    found.append(value)
                before += "VALUE"
    return found


def test_no_path_stands_in_a_printed_command_without_quotes() -> None:
    found = {
        name: wrong
        for file in sorted(ROOT.rglob("*.py"))
        if (
            wrong := {*unquoted(file.read_text())}
            - PLAIN.get(name := str(file.relative_to(ROOT)), set())
        )
    }
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        'f"go on: swarm-node run --home {home}"',
        'f"run: chmod 600 {path}"',
        'f"swarm-node swarm key {config.key} makes one"',
    ],
)
def test_a_path_without_quotes_is_found(line: str) -> None:
    assert len(unquoted(line)) == 1
    assert unquoted(line.replace("{", "{typed(").replace("}", ")}")) == []


def test_a_shell_reads_what_is_printed_as_the_words_that_are_meant() -> None:
    words = ["swarm-node", "run", "--home", Path("my home; $(rm) 'x'"), 3]
    assert shlex.split(typed(*words)) == [str(word) for word in words]
    home = Path("~/.swarm-node")
    assert at_home("swarm-node ask", home.expanduser(), home) == "swarm-node ask"
    printed = at_home("swarm-node ask", Path("/my home"), home)
    assert shlex.split(printed) == ["swarm-node", "ask", "--home", "/my home"]
