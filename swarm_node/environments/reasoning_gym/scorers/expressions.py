"""Scorers of arithmetic and polynomials, which are read without eval: sums, products, quotients by
numbers and small powers, exactly. Everything is bounded before it is computed, and nothing
recurses.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

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

Entry = Mapping[str, Any]
# Sorted variables of a term, repeated for powers -> factor, not 0
Polynomial = Mapping[tuple[str, ...], Fraction]
# Nothing, and the antiderivative of nothing as the library writes it
NOTHING = ("0", "0 + C", "0+C", "0 + c", "0+c")
ONE: Polynomial = {(): Fraction(1)}
MINUS_ONE: Polynomial = {(): Fraction(-1)}


def countdown(answer: str, entry: Entry) -> float:
    """1.0 for an expression of exactly these numbers that makes the target, 0.01 for anything
    else.
    """
    try:
        return 1.0 if _makes(answer, entry["metadata"]["target"], entry) else 0.01
    except Unreadable:
        return 0.01


def puzzle24(answer: str, entry: Entry) -> float:
    """1.0 for an expression of exactly these numbers that makes 24. The library takes any four
    numbers.
    """
    return float(_makes(answer, 24, entry))


def _makes(answer: str, target: int, entry: Entry) -> bool:
    if number(answer) != target:
        return False
    return sorted(integers(answer)) == sorted(entry["metadata"]["numbers"])


def polynomial(answer: str, entry: Entry) -> float:
    """1.0 for the expanded product, with like terms collected. As in the library, the question
    itself scores 0.
    """
    names, answer = frozenset(entry["metadata"]["variables"]), bare(answer)
    return float("(" not in answer and _collected(answer, names) == parse(entry["answer"], names))


def antiderivative(answer: str, entry: Entry) -> float:
    """1.0 for a polynomial whose derivative is the integrand, with C or no constant: a number would
    say more.
    """
    variable = entry["metadata"]["variable"]
    given = _collected(answer, frozenset((variable, "C", "c")))
    names = {"C", "c"} - {variable}
    for term, factor in given.items():
        is_constant = not term or not names.isdisjoint(term)
        if is_constant and (len(term) != 1 or factor != 1):
            return 0.0
    integrand = parse(entry["metadata"]["integrand"], frozenset((variable,)))
    return float(derivative(given, variable) == integrand)


def written(answer: str, entry: Entry) -> str:
    """The arithmetic of an answer, without needless brackets and spaces."""
    return ast.unparse(_tree(answer)).replace(" * ", "*").replace(" / ", "/")


def number(text: str) -> Fraction:
    """The exact value of an expression without variables. Raises Unreadable."""
    return _constant(parse(text))


def integers(text: str) -> list[int]:
    """The whole numbers that stand in an expression, in no order; Unreadable where another kind of
    literal does.
    """
    nodes = ast.walk(_tree(text))
    literals = [node.value for node in nodes if isinstance(node, ast.Constant)]
    if not all(type(value) is int for value in literals):
        raise Unreadable("not whole")
    return [value for value in literals if isinstance(value, int)]


def derivative(polynomial: Polynomial, variable: str) -> Polynomial:
    """The derivative by this variable."""
    terms = {}
    for term, factor in polynomial.items():
        if count := term.count(variable):
            first = term.index(variable)
            terms[term[:first] + term[first + 1 :]] = factor * count
    return terms


def parse(text: str, variables: frozenset[str] = frozenset()) -> Polynomial:
    """Exact value of `text`. `^` is not a power, as in Python. Raises Unreadable."""
    tree = _tree(text)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    if len(nodes) > MAX_NODES:
        raise Unreadable("too large")
    values: dict[ast.AST, Polynomial] = {}
    for node in reversed(nodes):  # children come after their parents
        values[node] = _bounded(_value(node, values, variables))
    return values[tree]


def _collected(text: str, variables: frozenset[str]) -> Polynomial:
    """As `parse`, for an expression that says nothing but its value. Raises Unreadable if it has
    more summands than the value has terms, a zero beside anything else, or a factor, divisor or
    power of 1.
    """
    value, nodes = parse(text, variables), list(ast.walk(_tree(text)))
    operations = [node for node in nodes if isinstance(node, ast.BinOp)]
    summands = 1 + sum(isinstance(node.op, ast.Add | ast.Sub) for node in operations)
    noughts = any(isinstance(node, ast.Constant) and not node.value for node in nodes)
    if bare(text) in NOTHING:
        return value
    if summands > max(1, len(value)) or noughts or any(map(_is_idle, operations)):
        raise Unreadable("more than its value")
    return value


def _is_idle(node: ast.BinOp) -> bool:
    if isinstance(node.op, ast.Mult):
        return _is_one(node.left) or _is_one(node.right)
    return isinstance(node.op, ast.Div | ast.Pow) and _is_one(node.right)


def _is_one(side: ast.expr) -> bool:
    """Whether it is 1 or, with a sign, -1."""
    bare = side.operand if isinstance(side, ast.UnaryOp) else side
    return isinstance(bare, ast.Constant) and bare.value == 1


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


def _value(  # noqa: PLR0911  (a case per operation)
    node: ast.AST, values: Mapping[ast.AST, Polynomial], variables: frozenset[str]
) -> Polynomial:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return {(): _literal(value)}
        case ast.Name(id=name) if name in variables:
            return {(name,): Fraction(1)}
        case ast.UnaryOp(op=ast.UAdd()):
            return values[node.operand]
        case ast.UnaryOp(op=ast.USub()):
            return _times(values[node.operand], MINUS_ONE)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _plus(values[left], values[right])
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _plus(values[left], _times(values[right], MINUS_ONE))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _times(values[left], values[right])
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _times(values[left], _inverse(values[right]))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(values[left], _constant(values[right]))
    raise Unreadable("something else than arithmetic")


def _literal(value: float) -> Fraction:
    if isinstance(value, float):
        in_bounds = value == 0 or 1e-30 <= abs(value) < 1e30  # NaN is not
        if not in_bounds:
            raise Unreadable("too large")
    return Fraction(repr(value))  # 0.1 is a tenth here


def _constant(polynomial: Polynomial) -> Fraction:
    if any(polynomial):
        raise Unreadable("a variable where a number belongs")
    return polynomial.get((), Fraction(0))


def _plus(left: Polynomial, right: Polynomial) -> Polynomial:
    terms = dict(left)
    for term, factor in right.items():
        terms[term] = terms.get(term, Fraction(0)) + factor
    return terms


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    if len(left) * len(right) > MAX_TERMS:
        raise Unreadable("too large")
    terms: defaultdict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    for one, first in left.items():
        for other, second in right.items():
            terms[tuple(sorted(one + other))] += first * second
    return _bounded(terms)


def _inverse(polynomial: Polynomial) -> Polynomial:
    """1 / a number. Raises Unreadable for zero, and for a polynomial with variables."""
    divisor = _constant(polynomial)
    if not divisor:
        raise Unreadable("division by zero")
    return {(): 1 / divisor}


def _power(base: Polynomial, exponent: Fraction) -> Polynomial:
    if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
        raise Unreadable("no small whole power")
    result, base = ONE, _inverse(base) if exponent < 0 else base
    for _ in range(abs(int(exponent))):
        result = _times(result, base)
    return result


def _bounded(terms: Polynomial) -> Polynomial:
    kept = {term: factor for term, factor in terms.items() if factor}
    if len(kept) > MAX_TERMS:
        raise Unreadable("too large")
    for term, factor in kept.items():
        bits = max(factor.numerator.bit_length(), factor.denominator.bit_length())
        exponent = max(map(term.count, term), default=0)
        if bits > MAX_BITS or exponent > MAX_EXPONENT:
            raise Unreadable("too large")
    return kept
