"""A tool that computes exactly what a policy asks for. It runs no code: its own parser reads
numbers and operators.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from operator import add, sub

from swarm_node.scoring.playing import ToolError

# Characters, nested parentheses or signs, decimals of a result
LONGEST, DEEPEST, DIGITS = 100, 16, 6
_TOKEN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|[-+*/()])")
_SUMS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {"+": add, "-": sub}


def calculate(expression: object) -> str:
    """The value of numbers, + - * / and parentheses: a whole number, or rounded to six decimals."""
    if not isinstance(expression, str) or len(expression) > LONGEST:
        raise ToolError(f"expression is a text of at most {LONGEST} characters")
    tokens, place, text = list[str](), 0, expression.rstrip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ToolError("only numbers, + - * / and parentheses")
        tokens.append(found[1])
        place = found.end()
    parser = _Parser(tokens)
    value = parser.sum(0)
    if parser.next is not None:
        raise ToolError(f"{parser.next} is not expected")
    whole, rest = divmod(abs(round(value * 10**DIGITS)), 10**DIGITS)
    decimals = f".{rest:0{DIGITS}}".rstrip("0") if rest else ""
    return f"{'-' if value < 0 and (whole or rest) else ''}{whole}{decimals}"


class _Parser:
    """A parser by recursive descent, at most DEEPEST levels deep."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens[::-1]

    @property
    def next(self) -> str | None:
        return self._tokens[-1] if self._tokens else None

    def sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while self.next in _SUMS:
            value = _SUMS[self._tokens.pop()](value, self._product(depth))
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._number(depth)
        while self.next in ("*", "/"):
            operator, other = self._tokens.pop(), self._number(depth)
            if operator == "/" and not other:
                raise ToolError("division by zero")
            value = value * other if operator == "*" else value / other
        return value

    def _number(self, depth: int) -> Fraction:
        if depth > DEEPEST:
            raise ToolError(f"more than {DEEPEST} parentheses or signs")
        read = self._tokens.pop() if self._tokens else None
        if read == "-":
            return -self._number(depth + 1)
        if read == "(":
            value = self.sum(depth + 1)
            if not self._tokens or self._tokens.pop() != ")":
                raise ToolError("a parenthesis is not closed")
            return value
        if read is None or not read[0].isdigit():
            raise ToolError("a number is missing")
        return Fraction(read)
