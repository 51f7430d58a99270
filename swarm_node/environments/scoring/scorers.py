"""Scorers of ours, for data sets of reasoning-gym whose scorer executes the answer or can be forged, and for plain
ones.

Same rewards for right answers as the library's (a test compares), no execution, bounded work, and nothing imported that
a small process would not have: these run in the fork server (`forkserver.py`), where a fork is cheap.
"""

import ast
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from swarm_node.environments.scoring import polynomials

Scorer = Callable[[str, Mapping[str, Any]], float]  # (answer, entry) -> reward
Entry = Mapping[str, Any]  # "answer" and those parts of "metadata" that NEEDED names

MAX_DIGITS = 400  # of a number that is worth reading


def same_text(answer: str, entry: Entry) -> float:
    """1.0 for the key; in part for a longer answer that contains it."""
    key: str = entry["answer"]
    if answer == key:
        return 1.0
    return len(key) / len(answer) if key in answer else 0.0


def same_decimal(answer: str, entry: Entry) -> float:
    """As `same_text`, but +01,000.00 is 1000."""
    number, key = answer.replace(",", ""), entry["answer"].replace(",", "")
    try:
        if len(number) <= MAX_DIGITS and Decimal(number) == Decimal(key):
            return 1.0
    except InvalidOperation:
        pass
    return same_text(number, {"answer": key})


def same_letters(answer: str, entry: Entry) -> float:
    """1.0 for the key, in capitals or not, however broken into lines."""
    return float(_joined(answer) == _joined(str(entry["answer"])))


def same_words(answer: str, entry: Entry) -> float:
    """1.0 for the key with other white space."""
    return float(bool(answer.split()) and answer.split() == entry["answer"].split())


def exactly(answer: str, entry: Entry) -> float:
    """1 for the very text of the answer, else 0."""
    return float(answer == str(entry["answer"]))


def fraction(answer: str, entry: Entry) -> float:
    """a/b or LaTeX's \\frac{a}{b}, simplified; little for one that is not."""
    metadata, cleaned = entry["metadata"], answer[:MAX_DIGITS].strip().strip("$").strip()
    latex = re.match(r"\\d?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}", cleaned, re.IGNORECASE)
    top, bottom = map(int, latex.groups() if latex else cleaned.split("/", 1))
    if (top, bottom) == (metadata["simplified_numerator"], metadata["simplified_denominator"]):
        return 1.0
    return 0.1 if top == metadata["numerator"] or bottom == metadata["denominator"] else 0.05


def prime_factors(answer: str, entry: Entry) -> float:
    """Factors in any order, with x-signs between; half for others with the same product."""
    key = _factors(entry["answer"])
    if len(answer) > MAX_DIGITS:
        return 0.0
    factors = _factors(answer)
    if factors == key:
        return 1.0
    return 0.5 if math.prod(factors) == math.prod(key) else 0.01


def binary_matrix(answer: str, entry: Entry) -> float:
    """1.0 for the matrix as text, 0.1 for the same numbers as a Python literal (a list of lists), else 0.0."""
    return _text_or_literal(answer, entry["answer"], lambda rows: "\n".join(_spaced(row) for row in rows))


def spiral_matrix(answer: str, entry: Entry) -> float:
    """1.0 for the numbers in a row, 0.1 for a Python list of them."""
    return _text_or_literal(answer.strip(), entry["answer"].strip(), _spaced)


def string_insertion(answer: str, entry: Entry) -> float:
    """1.0 for the word, 0.1 for a Python list of its letters."""
    return _text_or_literal(answer, entry["answer"], "".join)


def n_queens(answer: str, entry: Entry) -> float:
    """1.0 for any board that solves it."""
    return float(answer in entry["metadata"]["valid_answers"])


def number_sorting(answer: str, entry: Entry) -> float:
    """1.0 for the same numbers in order. The library takes any that are one apart at most, NaN included."""
    if len(answer) > 8 * len(entry["answer"]) + 64:
        return 0.0
    key = [Fraction(text) for text in ast.literal_eval(entry["answer"])]
    try:
        given = json.loads(answer.replace("'", '"'))
        return float(isinstance(given, list) and [_rational(each) for each in given] == key)
    except (ValueError, TypeError, RecursionError):
        return 0.0


def complex_number(answer: str, entry: Entry) -> float:
    """1.0 for a + bi to two digits, falling with the distance."""
    text = "".join(answer.split()).lower().replace("i", "j")
    while text[:1] == "(" and text[-1:] == ")" and len(text) <= MAX_DIGITS:
        text = text[1:-1]
    value = complex(text) if len(text) <= MAX_DIGITS else complex(math.nan)
    distance = abs(value - complex(*entry["metadata"]["result"]))
    if distance <= 0.01:
        return 1.0
    return math.exp(-distance) if math.isfinite(distance) else 0.0


def probability(answer: str, entry: Entry) -> float:
    """1.0 for the number, as a decimal or fraction, within 0.0001 of it or a hundredth of it, whichever is less."""
    key, given = _rational(entry["answer"]), _rational(answer.replace(",", ""))
    return float(abs(given - key) <= min(Fraction(1, 10_000), key / 100))


def yes_or_no(answer: str, entry: Entry) -> float:
    """1.0 for the key, True or False, in capitals or not. The library pays any text."""
    return float(answer.lower() == str(entry["answer"]).lower())


def countdown(answer: str, entry: Entry) -> float:
    """1.0 for an expression of exactly these numbers that makes the target, little for another expression."""
    try:
        value, used = polynomials.number(answer), sorted(polynomials.integers(answer))
    except polynomials.Unreadable:
        return 0.01
    right = used == sorted(entry["metadata"]["numbers"]) and value == entry["metadata"]["target"]
    return 1.0 if right else 0.05


def puzzle24(answer: str, entry: Entry) -> float:
    """1.0 for an expression of exactly these numbers that makes 24. The library takes any four numbers."""
    try:
        right = polynomials.number(answer) == 24
        return float(right and sorted(polynomials.integers(answer)) == sorted(entry["metadata"]["numbers"]))
    except polynomials.Unreadable:
        return 0.0


def polynomial(answer: str, entry: Entry) -> float:
    """1.0 for the expanded product. Like the library, it does not pay the question itself: that is not expanded."""
    names = frozenset(entry["metadata"]["variables"])
    if "(" in answer:
        return 0.0
    try:
        return float(polynomials.parse(answer, names) == polynomials.parse(entry["answer"], names))
    except polynomials.Unreadable:
        return 0.0


def antiderivative(answer: str, entry: Entry) -> float:
    """1.0 for a polynomial whose derivative is the integrand; C is a constant."""
    variable = entry["metadata"]["variable"]
    try:
        given = polynomials.derivative(polynomials.parse(answer, frozenset((variable, "C"))), variable)
        return float(given == polynomials.parse(entry["metadata"]["integrand"], frozenset((variable,))))
    except polynomials.Unreadable:
        return 0.0


def _joined(text: str) -> str:
    return text.lower().replace("\n", "").strip()


def _factors(text: str) -> list[int]:
    return sorted(int(factor) for factor in text.split("×") if factor.strip())


def _spaced(row: Any) -> str:
    return " ".join(str(cell) for cell in row)


def _text_or_literal(answer: str, key: str, written: Callable[[Any], str]) -> float:
    """1.0 for the key, 0.1 for a Python literal that is it when written out."""
    if answer == key:
        return 1.0
    if len(answer) > 8 * len(key) + 64:  # a literal of the same is at most about five times as long
        return 0.0
    try:
        return 0.1 if written(ast.literal_eval(answer)) == key else 0.0
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return 0.0


def _rational(value: Any) -> Fraction:
    """Exact; ValueError for anything else than a decimal number or a fraction of moderate size."""
    text = str(value).strip()
    if not re.fullmatch(
        r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})(e[+-]?\d{1,2})?|[+-]?\d{1,40}\s*/\s*\d{1,40}", text, re.I | re.A
    ):
        raise ValueError("no number")
    top, _, bottom = text.partition("/")
    return Fraction(top.strip()) / Fraction(bottom.strip() or "1")


_PLAIN = (
    "acre", "aiw", "arc_1d", "base_conversion", "basic_arithmetic", "bf", "binary_alternation", "caesar_cipher",
    "count_bits", "count_primes", "course_schedule", "gcd", "isomorphic_strings", "largest_island", "lcm",
    "leg_counting", "letter_counting", "list_functions", "mahjong_puzzle", "maze", "modulo_grid",
    "number_filtering", "number_sequence", "ransom_note", "rotate_matrix", "rotten_oranges", "simple_equations",
    "simple_geometry", "string_manipulation", "string_splitting", "string_synthesis", "syllogism",
    "word_sequence_reversal",
)  # fmt: skip

SCORERS: Mapping[str, Scorer] = dict.fromkeys(_PLAIN, same_text) | {
    "ab": exactly,
    "binary_matrix": binary_matrix,
    "chain_sum": same_decimal,
    "coin_flip": probability,
    "complex_arithmetic": complex_number,
    "countdown": countdown,
    "dice": same_letters,
    "family_relationships": same_letters,
    "fraction_simplification": fraction,
    "game_of_life_halting": yes_or_no,
    "n_queens": n_queens,
    "number_sorting": number_sorting,
    "path_star": same_words,
    "polynomial_multiplication": polynomial,
    "prime_factorization": prime_factors,
    "products": same_decimal,
    "puzzle24": puzzle24,
    "self_reference": exactly,
    "simple_integration": antiderivative,
    "spiral_matrix": spiral_matrix,
    "string_insertion": string_insertion,
    "zebra_puzzles": same_letters,
}

# Those that hand an answer to a parser of Python's own, which is much code in C. All others are plain: an answer is
# compared, cut into pieces, matched and read as a number, so whoever's it is may share a child (`server.cohort`).
PARSING = frozenset((
    "binary_matrix", "countdown", "number_sorting", "polynomial_multiplication", "puzzle24", "simple_integration",
    "spiral_matrix", "string_insertion",
))  # fmt: skip
PLAIN = SCORERS.keys() - PARSING

NEEDED: Mapping[str, tuple[str, ...]] = {  # parts of an entry's metadata that a scorer reads
    "complex_arithmetic": ("result",),
    "countdown": ("numbers", "target"),
    "fraction_simplification": ("numerator", "denominator", "simplified_numerator", "simplified_denominator"),
    "n_queens": ("valid_answers",),
    "polynomial_multiplication": ("variables",),
    "puzzle24": ("numbers",),
    "simple_integration": ("variable", "integrand"),
}

# About 25 of the library's scorers raise on odd text ("I do not know" as a prime factorisation). That is a wrong
# answer, not a broken question: to skip its group would leave a policy that writes nonsense nothing to learn from.
UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, SyntaxError)


def answer_of(text: str) -> str:
    """What stands in the last <answer> ... </answer>, or else the whole text; surrounding white space never counts.
    In linear time, which the library's own extraction is not."""
    _, opened, rest = text.rpartition("<answer>")
    answer, closed, _ = rest.partition("</answer>")
    return answer.strip() if opened and closed else text.strip()


def score(scorer: Scorer, answer: str, entry: Entry) -> float:
    """What the scorer says of an answer. One that it cannot read is wrong."""
    try:
        return scorer(answer, entry)
    except UNREADABLE:
        return 0.0
