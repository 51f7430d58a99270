"""Draws places for a reader who judges whether each can be understood alone.

    python -m tests.house.drawn SEED

Ten places each of the documents, of the docstrings and of the messages. In the first two a place
is three consecutive sentences. `lab/readers/strangers.md` says what is done with them.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from tests.house.messages import messages

ROOT = Path(__file__).parents[2]
CODE = ("protocol", "swarm_node", "lab")
DOCUMENTS = ("docs", "docker", "protocol", "examples", "deploy")
PLACES = 10  # of each kind
SENTENCES = 3  # of a place
BLOCK = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
NOT_PROSE = re.compile(r"^(\||#|<|!\[|    |> )")
END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\*\*))\s+(?=[A-Z`*\[])")


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs and list items of a page or docstring, each on one line."""
    for block in re.split(r"\n\s*\n", BLOCK.sub("", text)):
        lines = [line for line in block.splitlines() if not NOT_PROSE.match(line)]
        for item in re.split(r"\n(?=(?:-|\d+\.) )", "\n".join(lines)):
            if whole := " ".join(item.split()):
                yield whole


def runs(text: str) -> list[str]:
    """Every run of three consecutive sentences within a paragraph."""
    found = []
    for paragraph in paragraphs(text):
        sentences = END.split(paragraph)
        last = len(sentences) - SENTENCES + 1
        found += [" ".join(sentences[begin : begin + SENTENCES]) for begin in range(last)]
    return found


def of_documents() -> list[tuple[str, str]]:
    """File and text of every place in the documents."""
    pages = [page for folder in DOCUMENTS for page in (ROOT / folder).rglob("*.md")]
    return [
        (str(page.relative_to(ROOT)), run)
        for page in sorted([*ROOT.glob("*.md"), *pages])
        for run in runs(page.read_text(encoding="utf-8"))
    ]


def docstrings(file: Path) -> Iterator[str]:
    """The docstrings of a module."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield text


def of_docstrings() -> list[tuple[str, str]]:
    """File and text of every place in the docstrings."""
    files = sorted(file for folder in CODE for file in (ROOT / folder).rglob("*.py"))
    return [
        (str(file.relative_to(ROOT)), run)
        for file in files
        for docstring in docstrings(file)
        for run in runs(docstring)
    ]


def of_messages() -> list[tuple[str, str]]:
    """File and text of every message."""
    return [(file, text) for text, file in messages().items()]


def draw(
    seed: int, places: Sequence[tuple[str, str]], count: int = PLACES
) -> list[tuple[str, str]]:
    """So many of these places, each of another file, the same for the same seed."""
    random = Random(seed)
    files = sorted({file for file, _ in places})
    drawn = random.sample(files, count)
    return [random.choice([place for place in places if place[0] == file]) for file in drawn]


def main() -> None:
    """Prints the places of the seed that the command line names."""
    seed = int(sys.argv[1])
    for title, places in (
        ("documents", of_documents()),
        ("docstrings", of_docstrings()),
        ("messages", of_messages()),
    ):
        sys.stdout.write(f"\n# {title}\n\n")
        for number, (file, text) in enumerate(draw(seed, places), start=1):
            sys.stdout.write(f"{number}. ({file})\n   {text}\n\n")


if __name__ == "__main__":
    main()
