"""Every public name says what it is for.

The rule: a module, a class, a function and a method without an underscore have a docstring. Two
kinds of methods need none: a property, whose name says it, and a method that a Protocol of ours
names, as it is documented there.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = {
    file.relative_to(ROOT): ast.parse(file.read_text(encoding="utf-8"))
    for folder in ("protocol", "swarm_node")
    for file in (ROOT / folder).rglob("*.py")
}


def public(
    node: ast.Module | ast.ClassDef,
) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for each in node.body:
        if isinstance(
            each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and not each.name.startswith("_"):
            yield each


def is_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        "Protocol" in ast.unparse(base) for base in node.bases
    )


SEAMS = {
    method.name
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef) and is_protocol(node)
    for method in public(node)
}


def silent(node: ast.Module | ast.ClassDef, name: str) -> Iterator[str]:
    """The names that need a docstring and have none, of a module or class and all in it."""
    if not ast.get_docstring(node):
        yield name
    for each in public(node):
        inner = f"{name}.{each.name}"
        if isinstance(each, ast.ClassDef):
            yield from silent(each, inner)
        elif not ast.get_docstring(each) and not speaks_for_itself(each, node):
            yield inner


def speaks_for_itself(
    method: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.Module | ast.ClassDef
) -> bool:
    if isinstance(owner, ast.Module):
        return False
    is_property = any("property" in ast.unparse(decorator) for decorator in method.decorator_list)
    return is_property or (method.name in SEAMS and not is_protocol(owner))


def test_every_public_name_says_what_it_is_for() -> None:
    assert (
        len(TREES) > 100
        and {name for file, tree in TREES.items() for name in silent(tree, str(file))} == set()
    )
