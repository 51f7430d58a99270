"""docs/troubleshooting.md and docs/faq.md: what they say that a person sees, the program prints."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from swarm_node.commands.table import COMMANDS
from swarm_node.settings.flags import flags_of

ROOT = Path(__file__).parents[2]
PAGES = ("faq.md", "troubleshooting.md")
# Output of others, and what is not text of a line
OF_OTHERS = {"swarm-node: command not found", "Killed", "informative", "external 0", "reward 0.000"}


@cache
def printed() -> str:
    """All texts in the code, one behind the other; `...` stands for what a line fills in."""
    texts = []
    for file in (ROOT / "swarm_node").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = node.values
                texts.append(
                    "".join(p.value if isinstance(p, ast.Constant) else "..." for p in parts)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def quoted() -> list[str]:
    """What the first column of a table in troubleshooting.md puts into backticks."""
    rows = re.findall(r"^\| (.+?) \|", (ROOT / "docs" / PAGES[1]).read_text(), re.MULTILINE)
    return [words for row in rows for words in re.findall(r"`([^`]+)`", row)]


def test_every_line_that_the_page_explains_is_one_that_the_program_prints() -> None:
    lines = [line for line in quoted() if line not in OF_OTHERS]
    assert len(lines) > 15
    for line in lines:
        # Figures, and the word before them, are filled in
        without = re.sub(r"^(skipped|reward|informative) [\d.%]*\s*", "", line)
        for piece in filter(None, (part.strip() for part in without.split("..."))):
            assert piece in printed(), f"nothing prints {piece!r} (of {line!r})"


def known_flags() -> set[str]:
    found = set[str]()
    for entry in COMMANDS.values():
        module, _, name = entry.place.partition(":")
        found |= flags_of(getattr(importlib.import_module(module), name).options).keys()
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_option_that_the_page_names_exists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    named = set(re.findall(r"`(?:swarm-node [^`]*?)?(--[a-z][\w.-]*)", text))
    assert len(named) > 5
    assert named - known_flags() == set()
