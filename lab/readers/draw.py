"""Draws what a reader who has never seen the project explains: functions, and files opened in the
middle.

    python -m lab.readers.draw [--seed TEXT] [--functions 20] [--files 12]

The seed is named before anybody looks, so that nobody chooses what is shown. A reader gets the path
of one function or file at a time, may open nothing else for the first two minutes, and says:

- of a function: what it does, what it is given, what it returns, and what would break if it were
  left out. lab/readers/functions.md says when an explanation is right.
- of a file, from the line that is named and without its head: which room it is in, what the room is
  for, and what may be touched there without asking anybody.

Only what ships is drawn. A function has at least FEWEST statements, so that there is something to
explain; methods that Python calls by itself, such as `__init__`, are left out.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("protocol", "swarm_node")
SEED = "issue 60, first readers"
FEWEST = 4  # statements of a function that is drawn
SHORTEST = 60  # lines of a file that is opened in the middle


@dataclass(frozen=True, order=True)
class Place:
    """Where a reader begins: a file, a line in it, and the name of a function if it is one."""

    file: str
    line: int
    name: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}{' ' * bool(self.name)}{self.name}"


def functions(root: Path) -> list[Place]:
    """The functions of what ships that can be drawn, in the order of files and lines."""
    drawable: list[Place] = []
    for file, tree in _trees(root):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _tells(node):
                drawable.append(Place(file, node.lineno, node.name))
    return sorted(drawable)


def middles(root: Path) -> list[Place]:
    """The middle of each file of what ships that is long enough."""
    places: list[Place] = []
    for file, _ in _trees(root):
        lines = len((root / file).read_text(encoding="utf-8").splitlines())
        if lines >= SHORTEST:
            places.append(Place(file, lines // 2))
    return places


def drawn(places: list[Place], count: int, seed: str) -> list[Place]:
    """`count` of these places, in the order in which a reader gets them."""
    return Random(seed).sample(places, min(count, len(places)))


def _trees(root: Path) -> Iterator[tuple[str, ast.Module]]:
    for room in SHIPPED:
        for path in sorted((root / room).rglob("*.py")):
            yield str(path.relative_to(root)), ast.parse(path.read_text(encoding="utf-8"))


def _tells(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether there is enough in it to explain."""
    if function.name.startswith("__"):
        return False
    statements = sum(isinstance(node, ast.stmt) for node in ast.walk(function))
    return statements - 1 >= FEWEST


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", default=SEED, help="named before anybody looks")
    parser.add_argument("--functions", type=int, default=20, help="how many functions")
    parser.add_argument("--files", type=int, default=12, help="how many files")
    options = parser.parse_args()
    lines = [f"seed: {options.seed}", "", "functions:"]
    lines += map(str, drawn(functions(ROOT), options.functions, options.seed))
    lines += ["", "files, opened at this line:"]
    lines += map(str, drawn(middles(ROOT), options.files, options.seed))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
