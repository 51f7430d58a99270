"""How the files of the source tree depend on each other.

A file depends on a module of the tree if it imports it, anywhere in the file, or if it contains a
string that is the module's dotted path, alone or followed by a colon, as in
"swarm_node.node.loop:Loop".

What ships is `protocol` and `swarm_node`. A node is what ships without the rooms in BESIDE: who
starts a node, shows it, simulates many or puts one into another program.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

TOPS = ("protocol", "swarm_node", "lab", "tests")
SHIPPED = ("protocol", "swarm_node")
BESIDE = (
    "__main__",
    "api",
    "commands",
    "contribute",
    "extensions",
    "hub",
    "integrations",
    "page",
    "simulation",
    "swarm",
)


@dataclass
class Tree:
    """A source tree. Modules are known by their dotted names, and each is parsed once."""

    root: Path
    files: dict[str, Path] = field(init=False)

    def __post_init__(self) -> None:
        self.files = {}
        for top in TOPS:
            for file in sorted((self.root / top).rglob("*.py")):
                parts = file.relative_to(self.root).with_suffix("").parts
                name = parts[:-1] if parts[-1] == "__init__" else parts
                self.files[".".join(name)] = file

    @cached_property
    def shipped(self) -> set[str]:
        return {name for name in self.files if name.split(".")[0] in SHIPPED}

    @cached_property
    def node(self) -> set[str]:
        return {name for name in self.shipped if name != "swarm_node" and not beside(name)}

    @cached_property
    def depends(self) -> dict[str, set[str]]:
        """For each module that ships, the other modules of the tree that it depends on."""
        known = {*self.files, *TOPS}
        dependencies: dict[str, set[str]] = {}
        for name in self.shipped:
            file = self.files[name]
            package = name if file.name == "__init__.py" else name.rpartition(".")[0]
            nodes = ast.walk(ast.parse(file.read_bytes()))
            named = {nearest(dotted, known) for dotted in dotted_names(nodes, package, known)}
            dependencies[name] = named - {name, ""}
        return dependencies


def inside(name: str, package: str) -> bool:
    """Whether a module is this package or in it."""
    return f"{name}.".startswith(f"{package}.")


def beside(name: str) -> bool:
    """Whether a module is in a room that a node does without."""
    return any(inside(name, f"swarm_node.{room}") for room in BESIDE)


def dotted_names(nodes: Iterator[ast.AST], package: str, known: set[str]) -> Iterator[str]:
    """The names in import statements, and the strings that are the path of a known module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = imported_from(node, package)
            yield from (".".join([*base, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            dotted = node.value.partition(":")[0]
            if "." in dotted and dotted in known:
                yield dotted


def imported_from(node: ast.ImportFrom, package: str) -> list[str]:
    """The parts of the name that a `from` statement in this package imports from."""
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1] if node.level else []
    return above + ([node.module] if node.module else [])


def nearest(dotted: str, known: set[str]) -> str:
    """The module that a name is in: `protocol.codec.encode` is in `protocol.codec`. Empty if none
    is known.
    """
    while dotted and dotted not in known:
        dotted = dotted.rpartition(".")[0]
    return dotted


def circles(tree: Tree) -> set[frozenset[str]]:
    """The largest sets of files of which each depends on all others, directly or through them."""
    reached = {name: reached_from(name, tree) for name in tree.shipped}
    in_one_circle = {
        name: frozenset(other for other in reached[name] if name in reached[other])
        for name in reached
    }
    return {circle for circle in in_one_circle.values() if circle}


def reached_from(start: str, tree: Tree) -> set[str]:
    """All files that this one depends on, directly or through others."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = (tree.depends[waiting.pop()] & tree.shipped) - reached
        reached |= new
        waiting += new
    return reached


def forbidden(tree: Tree) -> list[str]:
    """Dependencies that may not be: of what ships on lab or tests, and of a node on what it does
    without.
    """
    arrows = [(name, other) for name in tree.shipped for other in tree.depends[name]]
    to_lab = [(name, other) for name, other in arrows if other.split(".")[0] in ("lab", "tests")]
    upwards = [(name, other) for name, other in arrows if name in tree.node and beside(other)]
    return sorted(f"{name} -> {other}" for name, other in to_lab + upwards)
