"""What a reader of the tree pays, which no way of typing changes: a report, and no bound.

    python -m tests.house.reading [--names] [--json]

It counts statements, not lines, since a formatter decides about lines:

- *long*: statements of more than 25 tokens. The header of an if, for, while, with or match counts
  as a statement. A docstring does not count, nor a comment.
- *nested*: statements that hold two or more comprehensions, lambdas or conditional expressions.
- *class names twice*: names that stand for more than one class in what ships.
- *plug-in groups*: groups of entry points in pyproject.toml, and their entries.

Statements in functions, in classes and of modules are counted alike. A table of constants, which
only lists values, is no statement that one has to follow: at module and class level an assignment
counts if something in it is computed by a loop, a condition or a lambda.

The same code formatted at another width gives the same report (tests/house/test_reading.py).
"""

import argparse
import ast
import copy
import io
import json
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LONG = 25  # tokens; httpx has 5.6 % of statements above it, trio 1.3 %
SIMPLE = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Expr,
    ast.Return,
    ast.Raise,
    ast.Assert,
    ast.Delete,
)
HEADED = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Match)
INNER = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.Lambda)
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
SHIPPED = ("protocol", "swarm_node")


@dataclass
class Counted:
    """What was counted in some folders. `long` and `nested` name statements as FILE:LINE."""

    statements: int = 0
    long: list[str] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    classes: Counter[str] = field(default_factory=Counter)

    @property
    def twice(self) -> list[str]:
        return sorted(name for name, count in self.classes.items() if count > 1)


def count(root: Path, folders: tuple[str, ...]) -> Counted:
    """Counts the Python files below these folders of a tree."""
    counted = Counted()
    for folder in folders:
        for file in sorted((root / folder).rglob("*.py")):
            count_file(counted, file.read_text(encoding="utf-8"), str(file.relative_to(root)))
    return counted


def count_file(counted: Counted, source: str, name: str) -> None:
    """Adds what is in one file."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            counted.classes[node.name] += 1
    for statement in statements(tree, in_function=False):
        counted.statements += 1
        if tokens(statement) > LONG:
            counted.long.append(f"{name}:{statement.lineno}")
        if computed(statement) > 1:
            counted.nested.append(f"{name}:{statement.lineno}")


def tokens(statement: ast.stmt) -> int:
    """How many tokens a statement has; one with a body, its header.

    Python writes the statement anew from its syntax, so that redundant brackets, trailing commas
    and texts in several parts count nothing. A formatted text is one token, as it is in Python
    3.11; later versions take it apart.
    """
    count = depth = 0
    for token in tokenize.generate_tokens(io.StringIO(ast.unparse(header(statement))).readline):
        kind = tokenize.tok_name[token.type]
        count += depth == 0 and token.type not in LAYOUT
        depth += (kind == "FSTRING_START") - (kind == "FSTRING_END")
    return count - 1 if isinstance(statement, HEADED) else count  # without the `pass` of its body


def header(statement: ast.stmt) -> ast.stmt:
    """The statement with an empty body, if it has one."""
    if isinstance(statement, ast.Match):
        return ast.While(statement.subject, [ast.Pass()], [], lineno=1)
    if not isinstance(statement, HEADED):
        return statement
    bare = copy.copy(statement)
    bare.body = [ast.Pass()]
    if not isinstance(bare, ast.With | ast.AsyncWith):
        bare.orelse = []
    return bare


def statements(node: ast.AST, in_function: bool) -> Iterator[ast.stmt]:
    """Each statement below a node, but texts that stand alone and tables of constants."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, HEADED):
            yield child
        elif isinstance(child, SIMPLE):
            text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if not text and (in_function or computed(child)):
                yield child
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from statements(child, in_function or is_function)


def computed(statement: ast.stmt) -> int:
    """How many loops, conditions and lambdas stand inside a statement; of one with a body, inside
    its header.
    """
    parts: list[ast.AST] = []
    for name, value in ast.iter_fields(statement):
        if name not in ("body", "orelse", "cases"):
            parts += value if isinstance(value, list) else [value]
    nodes = [node for part in parts if isinstance(part, ast.AST) for node in ast.walk(part)]
    return sum(isinstance(node, INNER) for node in nodes)


def report(root: Path) -> dict[str, int]:
    """The figures of a tree."""
    shipped, tests = count(root, SHIPPED), count(root, ("tests",))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = project.get("entry-points", {})
    return {
        "shipped_statements": shipped.statements,
        "shipped_long": len(shipped.long),
        "shipped_nested": len(shipped.nested),
        "tests_statements": tests.statements,
        "tests_long": len(tests.long),
        "tests_nested": len(tests.nested),
        "class_names_twice": len(shipped.twice),
        "plugin_groups": len(groups),
        "entry_points": sum(len(entries) for entries in groups.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", action="store_true", help="also list what is counted")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("tree", nargs="?", type=Path, default=Path(__file__).parents[2])
    options = parser.parse_args()
    figures = report(options.tree)
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")
        return
    for key, value in figures.items():
        share = value / figures[key.partition("_")[0] + "_statements"] if "_long" in key else None
        sys.stdout.write(f"{key:20} {value:6}{'' if share is None else f'   {share:.1%}'}\n")
    if options.names:
        shipped = count(options.tree, SHIPPED)
        for title, names in (("long", shipped.long), ("nested", shipped.nested)):
            sys.stdout.write(f"\n{title}, in what ships:\n" + "".join(f"  {n}\n" for n in names))
        sys.stdout.write(f"\nclass names twice: {', '.join(shipped.twice)}\n")


if __name__ == "__main__":
    main()
