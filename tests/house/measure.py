"""Measures the structure of the source tree: `python tests/house/measure.py [TREE] [--names]`
prints one JSON object.

`tests/house/bounds.toml` has an upper bound for each value, and `tests/house/test_house.py`
compares the two. With `--names` the object lists what each value counts, so one can see what to
change. No file and no name is exempt.

- The core is `protocol` and `swarm_node` without `swarm_node/extensions`. What ships is the core
  and the extensions.
- A room is `protocol`, or a module or package at the top of `swarm_node` other than `extensions`
  and `__main__`.
- A file depends on a module of the tree if it imports it, anywhere in the file, or if it contains a
  string that is the module's dotted path, alone or followed by a colon, as in
  "swarm_node.node.loop:Loop".
- Lines are physical lines: code, comments and blank lines.
"""

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

TOPS = ("protocol", "swarm_node", "lab", "tests")
# Folders with pages, beside the top
DOCS = (*TOPS, "docs", "docker", "examples", "deploy", "configs")
EXTENSIONS = "swarm_node.extensions"
LOOP = "swarm_node.node.loop"  # the node's main loop
SETTINGS = "swarm_node.settings"
OPTIONS = "NodeConfig"  # the class that holds the options of `run`
# A class that inherits from one of these is a section of options
SECTIONS = {"Section", "BaseModel", "BaseSettings"}
GROUPS = ("RolloutGroup", "ExternalGroup", "ScoredGroup", "TokenGroup")
STARTERS = {"Popen", "create_subprocess_exec"}
# The files that a peer's group passes, written by lab.benchmarks.group_path
PATH = Path("tests", "house", "path.txt")


@dataclass
class House:
    """A source tree. Modules are known by their dotted names, and each is parsed once."""

    tree: Path
    files: dict[str, Path] = field(init=False)

    def __post_init__(self) -> None:
        self.files = {}
        for top in TOPS:
            for file in sorted((self.tree / top).rglob("*.py")):
                parts = file.relative_to(self.tree).with_suffix("").parts
                self.files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file

    @cached_property
    def shipped(self) -> set[str]:
        return {name for name in self.files if name.split(".")[0] in ("protocol", "swarm_node")}

    @cached_property
    def core(self) -> set[str]:
        return {name for name in self.shipped if not inside(name, EXTENSIONS)}

    @cached_property
    def nodes(self) -> dict[str, list[ast.AST]]:
        """The syntax of each module that ships, as one list."""
        return {
            name: list(ast.walk(ast.parse(self.files[name].read_bytes()))) for name in self.shipped
        }

    @cached_property
    def depends(self) -> dict[str, set[str]]:
        """For each module that ships, the other modules of the tree that it depends on."""
        known = {*self.files, *TOPS}
        found: dict[str, set[str]] = {}
        for name, nodes in self.nodes.items():
            package = name if self.files[name].name == "__init__.py" else name.rpartition(".")[0]
            found[name] = {
                _nearest(dotted, known) for dotted in _dotted_names(nodes, package, known)
            } - {name, ""}
        return found


def inside(name: str, package: str) -> bool:
    """Whether a module is this package or in it."""
    return f"{name}.".startswith(f"{package}.")


def _dotted_names(nodes: list[ast.AST], package: str, known: set[str]) -> Iterator[str]:
    """The names in the import statements of a file, and the strings in it that are the path of a
    module.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = [*above, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            dotted = node.value.partition(":")[0]
            if "." in dotted and dotted in known:
                yield dotted


def _nearest(dotted: str, known: set[str]) -> str:
    """The module that a dotted name is in: `protocol.codec.encode` is in `protocol.codec`. Empty if
    it is not ours.
    """
    while dotted and dotted not in known:
        dotted = dotted.rpartition(".")[0]
    return dotted


def room(name: str) -> str | None:
    """The room of a module of the core."""
    parts = name.split(".")
    if parts[0] == "protocol":
        return "protocol"
    return parts[1] if len(parts) > 1 and parts[1] != "__main__" else None


def arrows(house: House) -> set[tuple[str, str]]:
    """Pairs of rooms of which the first depends on the second."""
    pairs = {
        (room(name), room(other))
        for name in house.core
        for other in house.depends[name] & house.core
    }
    return {(one, other) for one, other in pairs if one and other and one != other}


def circles(house: House) -> set[frozenset[str]]:
    """The largest sets of files of which each depends on all others, directly or through them."""
    reached = {name: _reached(name, house) for name in house.shipped}
    in_one = {
        name: frozenset(other for other in reached[name] if name in reached[other])
        for name in reached
    }
    return {circle for circle in in_one.values() if circle}


def _reached(start: str, house: House) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = (house.depends[waiting.pop()] & house.shipped) - found
        found |= new
        waiting += new
    return found


def functions(house: House) -> list[int]:
    """How many lines each function and method of the core has."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    found = (node for name in house.core for node in house.nodes[name] if isinstance(node, kinds))
    return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in found]


def wrappers(house: House) -> set[str]:
    """Classes of the core with an annotated field whose type names one of the groups, at any
    depth.
    """
    return {
        f"{name}.{node.name}"
        for name in house.core
        for node in house.nodes[name]
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign)
        and any(group in ast.unparse(each.annotation) for group in GROUPS)
    }


def process_starters(house: House) -> set[str]:
    """Files of the core that name a function that starts a process and leaves it running."""
    return {
        name
        for name in house.core
        for node in house.nodes[name]
        if STARTERS & {getattr(node, key, None) for key in ("attr", "id", "name")}
    }


def options(house: House) -> set[str]:
    """The options of `run` that the core has, as the classes in its settings declare them."""
    nodes = [node for name in house.core if inside(name, SETTINGS) for node in house.nodes[name]]
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}

    def bases(name: str) -> list[str]:
        return (
            [ast.unparse(base).rpartition(".")[2] for base in classes[name].bases]
            if name in classes
            else []
        )

    def is_section(name: str) -> bool:
        return name in SECTIONS or any(is_section(base) for base in bases(name))

    def fields(name: str) -> dict[str, ast.expr]:
        inherited = {
            key: kind for base in reversed(bases(name)) for key, kind in fields(base).items()
        }
        body = classes[name].body if name in classes else []
        own = {
            each.target.id: each.annotation
            for each in body
            if isinstance(each, ast.AnnAssign)
            and isinstance(each.target, ast.Name)
            and each.target.id[0] != "_"
        }
        return inherited | {
            key: kind for key, kind in own.items() if "ClassVar" not in ast.unparse(kind)
        }

    def leaves(name: str, prefix: str) -> Iterator[str]:
        for key, kind in fields(name).items():
            sections = [
                each.id
                for each in ast.walk(kind)
                if isinstance(each, ast.Name) and is_section(each.id)
            ]
            yield from [] if sections else [prefix + key]
            for section in sections:
                yield from leaves(section, f"{prefix}{key}.")

    return set(leaves(OPTIONS, ""))


def doc_words(tree: Path) -> int:
    """Words, as `wc -w` counts them, of the pages that people write; `make reference` writes the
    others.
    """
    pages = {*tree.glob("*.md"), *(page for top in DOCS for page in (tree / top).rglob("*.md"))}
    made = {
        tree / "docs" / "reference" / f"{name}.md"
        for name in ("options", "events", "report", "messages")
    }
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages - made)


def names(house: House) -> dict[str, list[str]]:
    """For each value that is a count, what it counts."""
    pairs = [(name, other) for name in house.shipped for other in house.depends[name]]
    core = [(name, other) for name, other in pairs if name in house.core]
    fans = {name: house.depends[name] & house.shipped for name in sorted(house.core)}
    path = house.tree / PATH
    found = {
        "rooms": {found for name in house.core if (found := room(name))},
        "arrows": {" -> ".join(pair) for pair in arrows(house)},
        "file_edges": {" -> ".join(pair) for pair in core if pair[1] in house.core},
        "core_to_extensions": {" -> ".join(pair) for pair in core if inside(pair[1], EXTENSIONS)},
        "shipped_to_lab": {
            " -> ".join(pair)
            for pair in pairs
            if inside(pair[1], "lab") or inside(pair[1], "tests")
        },
        "file_circles": {", ".join(sorted(circle)) for circle in circles(house)},
        "loop_fan_out": fans[LOOP],
        "fan_out": max(fans.values(), key=len),
        "options": options(house),
        "wrappers": wrappers(house),
        "process_starters": process_starters(house),
        "path": {*path.read_text().splitlines()} if path.exists() else set(),
    }
    return {key: sorted(each) for key, each in found.items()}


def measure(house: House) -> dict[str, int]:
    """Every value that has a bound."""
    lines = {name: len(file.read_bytes().splitlines()) for name, file in house.files.items()}
    return {
        **{key: len(found) for key, found in names(house).items()},
        "core_lines": sum(lines[name] for name in house.core),
        "shipped_lines": sum(lines[name] for name in house.shipped),
        "lab_lines": sum(lines[name] for name in lines if inside(name, "lab")),
        "test_lines": sum(lines[name] for name in lines if inside(name, "tests")),
        "longest_file": max(lines[name] for name in house.core),
        "longest_function": max(functions(house), default=0),
        "doc_words": doc_words(house.tree),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", nargs="?", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--names", action="store_true", help="list what is counted")
    arguments = parser.parse_args()
    house = House(arguments.tree.resolve())
    sys.stdout.write(
        json.dumps(names(house) if arguments.names else measure(house), indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
