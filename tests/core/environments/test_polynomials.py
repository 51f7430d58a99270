"""Expressions of strangers: exact, bounded, never evaluated."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_node.environments.reasoning_gym.scorers.expressions import (
    derivative,
    integers,
    number,
    parse,
)
from swarm_node.environments.reasoning_gym.scorers.reading import Unreadable, bare

X = frozenset("x")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("82 + 20 + 67 - 50", 119), ("49*(85 - 1)/14 - 42 - 73", 179),
        ("1/3 + 1/6", Fraction(1, 2)), ("0.1 + 0.2", Fraction(3, 10)), ("-(2 - 5)**3", 27),
        ("2**-3", Fraction(1, 8)), ("(1 + 2)*(3 + 4)", 21), ("((1 + 2)*(3 + 4)).", 21),
        ("`2 * 3`", 6),
    ],
)  # fmt: skip
def test_numbers_are_exact(text: str, value: Fraction) -> None:
    assert number(text) == value


def test_polynomials_are_equal_however_they_are_written() -> None:
    assert parse("(x + 1)*(x - 1)", X) == parse("x**2 - 1", X) == parse("-1 + x*x", X)
    assert parse("x - x", X) == parse("0", X) == {}
    assert derivative(parse("x**3/3 - 2*x + 7", X), "x") == parse("x**2 - 2", X)
    assert sorted(integers("6*4*1*1")) == [1, 1, 4, 6]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')", "x + y", "f(2)", "1 if 1 else 2", "[1][0]", "True + 1",
        "0b11 + 0x10", "1_0 + 1e0", "2 + +1", "2 - -1", "'1' + 1", "1j", "1/0", "1/(2-2)", "x/x",
        "2**x", "2**0.5", "9**9**9", "2**(2**40)", "(x+1)**41", "x**40*x",
        "9" * 200 + "*" + "9" * 200, "1e999", "1e-300", "+".join(["1"] * 1000),
        "(" * 300 + "1" + ")" * 300, "-" * 1900 + "1", "1" * 3000, "", "\x00", "\ud800", "x := 3",
        "1; 2",
    ],
)  # fmt: skip
def test_everything_else_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text, X)


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="0123456789+-*/(). xe", max_size=60))
def test_what_is_readable_is_what_python_makes_of_it(text: str) -> None:
    try:
        value = number(text)
    except Unreadable:
        return
    try:
        expected = eval(bare(text), {"__builtins__": {}})  # digits and operators only
    except (OverflowError, SyntaxWarning):
        return
    assert float(value) == pytest.approx(float(expected), rel=1e-6, abs=1e-9)
