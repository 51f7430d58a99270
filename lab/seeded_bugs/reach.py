"""Which tests reach a file by imports, also by those in functions, in other processes and of
plug-ins named in text.
"""

import ast
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SHIPPED = ("protocol", "swarm_node")
# Older commits have three of lab's at the root
TOPS = (*SHIPPED, "lab", "benchmarks", "fuzzing", "studies", "tests")
DOTTED = re.compile(rf"\b(?:{'|'.join(TOPS)})(?:\.\w+)+")
BESIDE = re.compile(r"([\w.]+):\w+")  # a module of the same package, and a name in it
PLUGINS = Path("swarm_node", "common", "plugins.py")  # imports what pyproject.toml registers


def reaching(tree: Path, changed: Path) -> dict[Path, int]:
    """Test files, and over how many imports each of them reaches `changed`: 1 where it imports it
    itself.
    """
    importers = _importers(tree)
    found, edge = {changed: 0}, [changed]
    for file in edge:  # `edge` grows meanwhile: the nearest first
        for importer in sorted(importers.get(file, set()) - found.keys()):
            found[importer] = found[file] + 1
            edge.append(importer)
    # tests/lab/test_seeded_bugs.py looks for the lines that bugs change: it would catch each of
    # them.
    return {
        file: steps for file, steps in found.items() if re.match("test_(?!seeded_bugs)", file.name)
    }


@cache
def _importers(tree: Path) -> Mapping[Path, set[Path]]:
    """The files that import each file."""
    modules = {_dotted(tree, file): file for top in TOPS for file in (tree / top).rglob("*.py")}
    found: dict[Path, set[Path]] = {}
    for file in modules.values():
        names = _names(file, _dotted(tree, file.parent / "__init__.py"))
        if file == tree / PLUGINS:
            names |= _registered(tree)
        for imported in {modules[module] for name in names if (module := _module(name, modules))}:
            found.setdefault(imported, set()).add(file)
        for folder in file.parents if file.is_relative_to(tree / "tests") else ():
            found.setdefault(folder / "conftest.py", set()).add(file)
    return found


def _names(file: Path, package: str) -> set[str]:
    """Dotted names that a file imports or has in a string, docstrings aside."""
    names: set[str] = set()
    nodes = list(ast.walk(ast.parse(file.read_bytes())))
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        ):
            names.update(DOTTED.findall(node.value))
            if beside := BESIDE.fullmatch(node.value):
                names.add(f"{package}.{beside[1]}")
    return names


def _registered(tree: Path) -> set[str]:
    project = tomllib.loads((tree / "pyproject.toml").read_text()).get("project", {})
    groups = project.get("entry-points", {}).values()
    return {place.partition(":")[0] for group in groups for place in group.values()}


def _dotted(tree: Path, file: Path) -> str:
    parts = file.relative_to(tree).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module(name: str, modules: Mapping[str, Path]) -> str:
    """The module in which a dotted name lies; "" if no module of the tree has it."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name
