"""How the house is built: rooms and arrows of the top level, and the files that an external group passes.

    python -m lab.benchmarks.structure --list          # beside v0.1.0

A room is a module or a package at the top of swarm_node (but __init__ and __main__), or a package beside it. An arrow
is a pair of rooms of which the first imports the second, wherever the import stands. Tests are no part of the house.

A file is on the path of an external group if a function in it is called with the group, or returns it, in whatever form
its text can be read; and, once it is tensors, if it runs in the update that trains on it. So the path is measured: a
node of each side trains on the groups of a peer, over a real network. What sandboxed children run is not seen.
"""

import ast
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.benchmarks import command
from lab.benchmarks.compatibility import ROOT, take_out
from lab.benchmarks.group_path import path_of_a_group

BESIDE = ("protocol", "benchmarks", "studies", "fuzzing")


def main() -> None:
    parser = command.parser("lab.benchmarks.structure", __doc__)
    parser.add_argument("--release", default="v0.1.0", help="what is compared with (v0.1.0)")
    parser.add_argument("--list", action="store_true", help="name the arrows and the files on the path")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        (released := Path(name) / "release").mkdir()
        take_out(options.release, released)
        sides = {options.release: released, "present": ROOT}
        arrows = {side: arrows_of(code) for side, code in sides.items()}
        paths = {side: path_of_a_group(code) for side, code in sides.items()}
    counts = {side: (len(rooms_in(arrows[side])), len(arrows[side]), len(paths[side])) for side in sides}
    command.show(["", "rooms", "arrows", "files on the path"], [[s, *map(str, found)] for s, found in counts.items()])
    if options.list:
        for side in sides:
            print("\n".join([f"\n{side}", *sorted(f"  {one} -> {other}" for one, other in arrows[side])]))
            print("\n".join(f"  {file}" for file in sorted(paths[side])))
    names, (then, now) = ("rooms", "arrows", "path"), counts.values()
    shares = {name: after / before for name, before, after in zip(names, then, now, strict=True)}
    rows = {side: dict(zip(names, found, strict=True)) for side, found in counts.items()}
    command.finish(options, {"ratio": max(shares.values()), "shares": shares, **rows})


def rooms_in(arrows: set[tuple[str, str]]) -> set[str]:
    return {room for pair in arrows for room in pair}


def arrows_of(root: Path) -> set[tuple[str, str]]:
    """Pairs of rooms of the tree in `root`: who imports whom."""
    rooms = dict(_files(root))
    names = {_module(root, file): room for file, room in rooms.items()}
    found = set()
    for file, room in rooms.items():
        for name in _imported(file):
            parts = name.split(".")
            homes = (names.get(".".join(parts[:end])) for end in range(len(parts), 0, -1))
            other = next((home for home in homes if home is not None), room)
            if other != room:
                found.add((room, other))
    return found


def _files(root: Path) -> Iterator[tuple[Path, str]]:
    """Every file of the house with its room."""
    for top in ("swarm_node", *BESIDE):
        for file in sorted((root / top).rglob("*.py")):
            inside = file.relative_to(root / top).parts[0].removesuffix(".py")
            if top != "swarm_node":
                yield file, top
            elif not inside.startswith("__"):
                yield file, f"{top}.{inside}"


def _module(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


if __name__ == "__main__":
    main()
