"""The report of what a reader pays counts statements, however they are typed."""

from pathlib import Path

import pytest

from tests.commands import python
from tests.house import reading

ROOT = Path(__file__).parents[2]


def counted(source: str) -> reading.Counted:
    result = reading.Counted()
    reading.count_file(result, source, "file.py")
    return result


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("x = 1", 3),
        ("x = (1)", 3),
        ("f(a, b)", 6),
        ("f(\n    a,\n    b,\n)", 6),
        ("x = 'one' 'two'", 3),
        ("x = (\n    'one'\n    f'two {x} {y}'\n)", 3),
        ("x = 1  # why", 3),
        ("if x and y:\n    f()\nelse:\n    g()", 5),
        ("for x in y:\n    f()\n    g()", 5),
        ("with a as b, c as d:\n    f()", 9),
        ("while f(x):\n    pass", 6),
        ("match f(x):\n    case 1:\n        pass", 6),
    ],
)
def test_the_tokens_of_a_statement_or_header_are_counted_without_layout(
    source: str, tokens: int
) -> None:
    tree = reading.ast.parse(source)
    assert reading.tokens(tree.body[0]) == tokens


def test_headers_and_module_and_class_level_count_and_tables_of_constants_do_not() -> None:
    source = '''"""A text."""
TABLE = {"one": 1, "two": 2}
SQUARES = [n * n for n in range(3)]
class Shape:
    sides: int = 4
    names = tuple(str(n) for n in range(3))
if TABLE:
    def area(self):
        """A text."""
        for n in SQUARES:
            x = n
        return x
'''
    assert counted(source).statements == 6  # SQUARES, names, if, for, x, return


def test_long_and_nested_statements_and_class_names_in_use_twice_are_named() -> None:
    long = "def f():\n    return " + " + ".join("abcdefghijklmn") + "\n"  # 1 + 14 + 13 tokens
    assert counted(long).long == ["file.py:2"]
    assert counted(long.replace(" + n", "").replace(" + m", "")).long == []  # 24 tokens
    nested = "def f(xs):\n    return [x if x else 0 for x in xs]\n"
    assert counted(nested).nested == ["file.py:2"]
    header = "def f(xs):\n    for x in [y for y in xs if (lambda: y)()]:\n        pass\n"
    assert counted(header).nested == ["file.py:2"]
    assert counted("class A: ...\nclass B:\n    class A: ...\n").twice == ["A"]


def test_the_report_of_this_tree_is_printed_and_bounds_nothing() -> None:
    done = python("-m", "tests.house.reading", "--json", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    figures = reading.json.loads(done.stdout)
    assert 0 < figures["shipped_long"] < figures["shipped_statements"]
    assert figures["plugin_groups"] <= figures["entry_points"]
