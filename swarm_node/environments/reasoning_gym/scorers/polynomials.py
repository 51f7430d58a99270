"""Arithmetic written by a stranger, without eval: sums, products, quotients by numbers and small powers, exactly.

An expression becomes a polynomial with rational coefficients; a number is one without variables. Everything is bounded
before it is computed, and nothing recurses.
"""

import ast
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

from swarm_node.environments.reasoning_gym.scorers.reading import Unreadable, bare

MAX_CHARS = 2000
MAX_NODES = 600
MAX_TERMS = 200
MAX_EXPONENT = 40  # of a power, and of a variable in a term
MAX_BITS = 512  # of a numerator or denominator

_PLAIN_SIGNS = re.compile(r"[\w\s.+*/()-]*", re.ASCII)
_ODD_NUMBER = re.compile(
    r"\d[A-Za-z_]|\+\s*[+-]|-\s*[+-]|(?:^|[(*/])\s*\+"
)  # 0x10, 1_0, 1e0, and signs that do nothing

Monomial = tuple[tuple[str, int], ...]  # (variable, exponent), by name, exponents above 0
Polynomial = Mapping[Monomial, Fraction]  # without zero coefficients


def parse(text: str, variables: frozenset[str] = frozenset()) -> Polynomial:
    """Exact value of `text`. `^` is no power, as in Python. Raises Unreadable."""
    tree = _tree(text)
    values: dict[ast.AST, Polynomial] = {}
    for node in reversed(_nodes(tree)):  # children come behind their parents
        values[node] = _value(node, values, variables)
    return values[tree]


def number(text: str) -> Fraction:
    """The exact value of an expression without variables. Raises Unreadable."""
    return _constant(parse(text))


def integers(text: str) -> list[int]:
    """The whole numbers that stand in an expression, in no order; Unreadable where another kind of literal does."""
    parse(text)
    literals = [node.value for node in ast.walk(_tree(text)) if isinstance(node, ast.Constant)]
    if not all(type(value) is int for value in literals):
        raise Unreadable("not whole")
    return [value for value in literals if isinstance(value, int)]


def says_more(text: str) -> bool:
    """Whether an expression says more than it has to: a nought beside others, or a factor, divisor or power of 1."""
    nodes = list(ast.walk(_tree(text)))
    noughts = any(isinstance(node, ast.Constant) and not node.value for node in nodes)
    return (noughts and bare(text) != "0") or any(isinstance(node, ast.BinOp) and _is_idle(node) for node in nodes)


def terms(text: str) -> int:
    """How many summands an expression is written as: more than its polynomial has say something by how they differ."""
    sums = sum(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) for node in ast.walk(_tree(text)))
    return sums + 1


def _is_idle(node: ast.BinOp) -> bool:
    bare_sides = (side.operand if isinstance(side, ast.UnaryOp) else side for side in (node.left, node.right))
    left, right = (isinstance(side, ast.Constant) and side.value == 1 for side in bare_sides)
    return isinstance(node.op, ast.Mult | ast.Div | ast.Pow) and (right or (left and isinstance(node.op, ast.Mult)))


def written(text: str) -> str:
    """An expression that could be parsed, with no bracket or space too many."""
    return ast.unparse(_tree(text)).replace(" * ", "*").replace(" / ", "/")


def is_constant(polynomial: Polynomial, name: str) -> bool:
    """Whether this name stands in it once at most, added, and no number beside it does."""
    return all(
        coefficient == 1 and monomial == ((name, 1),)
        for monomial, coefficient in polynomial.items()
        if not monomial or name in dict(monomial)
    )


def derivative(polynomial: Polynomial, variable: str) -> Polynomial:
    """By this variable."""
    terms: dict[Monomial, Fraction] = {}
    for monomial, coefficient in polynomial.items():
        exponents = dict(monomial)
        exponent = exponents.pop(variable, 0)
        if exponent > 1:
            exponents[variable] = exponent - 1
        if exponent:
            terms[tuple(sorted(exponents.items()))] = coefficient * exponent
    return terms


def _tree(text: str) -> ast.expr:
    if len(text) > MAX_CHARS:
        raise Unreadable("too long")
    text = bare(text)
    if not _PLAIN_SIGNS.fullmatch(text) or _ODD_NUMBER.search(text):  # a comment could say anything
        raise Unreadable("signs that no expression has")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Unreadable("no expression") from error


def _nodes(tree: ast.AST) -> list[ast.AST]:
    """Parents before children."""
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            found.append(node)
        if len(found) > MAX_NODES:
            raise Unreadable("too large")
    return found


def _value(node: ast.AST, values: Mapping[ast.AST, Polynomial], variables: frozenset[str]) -> Polynomial:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded({(): _literal(value)})
        case ast.Name(id=name) if name in variables:
            return {((name, 1),): Fraction(1)}
        case ast.UnaryOp(op=ast.UAdd() | ast.USub()):
            return _times(values[node.operand], {(): Fraction(-1 if isinstance(node.op, ast.USub) else 1)})
        case ast.BinOp() if type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](values[node.left], values[node.right])
    raise Unreadable("something else than arithmetic")


def _literal(value: float) -> Fraction:
    if isinstance(value, float):
        if not abs(value) < 1e30 or (value and abs(value) < 1e-30):  # NaN too
            raise Unreadable("too large")
        return Fraction(repr(value))  # 0.1 is a tenth here
    return Fraction(value)


def _constant(polynomial: Polynomial) -> Fraction:
    if any(polynomial.keys()):
        raise Unreadable("a variable where a number belongs")
    return polynomial.get((), Fraction(0))


def _plus(left: Polynomial, right: Polynomial) -> Polynomial:
    terms = dict(left)
    for monomial, coefficient in right.items():
        terms[monomial] = terms.get(monomial, Fraction(0)) + coefficient
    return _bounded(terms)


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    if len(left) * len(right) > MAX_TERMS:
        raise Unreadable("too large")
    terms: dict[Monomial, Fraction] = {}
    for one, first in left.items():
        for two, second in right.items():
            exponents = dict(one)
            for name, exponent in two:
                exponents[name] = exponents.get(name, 0) + exponent
            monomial = tuple(sorted(exponents.items()))
            terms[monomial] = terms.get(monomial, Fraction(0)) + first * second
    return _bounded(terms)


def _minus(left: Polynomial, right: Polynomial) -> Polynomial:
    return _plus(left, _times(right, {(): Fraction(-1)}))


def _divided(left: Polynomial, right: Polynomial) -> Polynomial:
    divisor = _constant(right)
    if not divisor:
        raise Unreadable("division by zero")
    return _times(left, {(): 1 / divisor})


def _power(base: Polynomial, by: Polynomial) -> Polynomial:
    exponent = _constant(by)
    if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
        raise Unreadable("no small whole power")
    if exponent < 0:
        base = _divided({(): Fraction(1)}, base)
    result: Polynomial = {(): Fraction(1)}
    for _ in range(abs(int(exponent))):
        result = _times(result, base)
    return result


def _bounded(terms: Mapping[Monomial, Fraction]) -> Polynomial:
    kept = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if len(kept) > MAX_TERMS or any(exponent > MAX_EXPONENT for monomial in kept for _, exponent in monomial):
        raise Unreadable("too large")
    if any(max(c.numerator.bit_length(), c.denominator.bit_length()) > MAX_BITS for c in kept.values()):
        raise Unreadable("too large")
    return kept


_OPERATIONS: Mapping[type[ast.operator], Callable[[Polynomial, Polynomial], Polynomial]] = {
    ast.Add: _plus,
    ast.Sub: _minus,
    ast.Mult: _times,
    ast.Div: _divided,
    ast.Pow: _power,
}
