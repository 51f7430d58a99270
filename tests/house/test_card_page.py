"""docs/reference/card.md, on the code that runs on a GPU only, lists every function that asks for
CUDA.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "card.md"


def asked_for_cuda(tree: ast.AST, name: str = "") -> Iterator[str]:
    """The functions in which CUDA is named."""
    for node in ast.iter_child_nodes(tree):
        inside = (
            f"{name}.{node.name}".strip(".")
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else name
        )
        match node:
            case (
                ast.Constant(value="cuda" | "cuda:1")
                | ast.Attribute(value=ast.Name(id="torch"), attr="cuda")
            ):
                yield inside
        yield from asked_for_cuda(node, inside)


def test_everything_that_asks_for_cuda_is_on_the_page() -> None:
    code = {
        (str(file.relative_to(ROOT / "swarm_node")), name)
        for file in (ROOT / "swarm_node").rglob("*.py")
        for name in asked_for_cuda(ast.parse(file.read_text(encoding="utf-8")))
    }
    rows = re.findall(
        r"^\| `([^`]+)` (?:`([^`]+)`|the module) \|", PAGE.read_text(encoding="utf-8"), re.M
    )
    assert len(rows) == len(set(rows)) > 20 and set(rows) == code
