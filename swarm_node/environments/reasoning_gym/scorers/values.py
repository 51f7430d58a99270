"""Scorers of data sets whose answer is a number, a name or a few words. Rewards of right answers
are the library's.
"""

import ast
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from swarm_node.environments.reasoning_gym.scorers.reading import (
    MAX_DIGITS,
    Unreadable,
    bare,
    bounded,
    bounded_json,
    integer,
    rational,
    ungrouped,
)
from swarm_node.environments.reasoning_gym.scorers.spellings import near

Entry = Mapping[str, Any]
Score = Callable[[str, Entry], float]  # (answer, entry) -> reward
MAX_ROOTS = 64
MAX_LITERAL = 4000  # characters: 30 ms of Python's parser
# The most that anything but the answer is worth: the library's measures of nearness reach 1
NEARLY = 0.99
WEEKDAYS = frozenset(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"))
THREE_DIGITS = Context(prec=3)
_REAL = r"\d{1,60}(?:\.\d{0,60})?"
_COMPLEX = re.compile(
    rf"[+-]?\s?{_REAL}|(?:[+-]?\s?{_REAL}\s{{0,2}}[+-]\s{{0,2}}|[+-]?)(?:{_REAL})?[ij]",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"(\d{1,4}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?")
_DAYS = re.compile(r"([+-]?\d{1,9})\s*(?:days?)?\.?", re.IGNORECASE)
_DAYS_AND_CLOCK = re.compile(r"(\d{1,9})\s+days?,\s*(.*)", re.IGNORECASE | re.DOTALL)
_ROLE = r"(\w{1,60}) is an? (\w{1,30})".replace(" ", r"[ \t\n,]{1,2}")
_BETWEEN = r"[ \t\r\n,.]{1,3}(?:and[ \t\n,]{1,2})?"
_ROLES = re.compile(rf"{_ROLE}(?:{_BETWEEN}|\Z)")
_ROLES_ONLY = re.compile(rf"{_ROLE}(?:{_BETWEEN}{_ROLE})*")
_POINT = re.compile(r"\(?([^(),]{1,60}),([^(),]{1,60})\)?")


def equal(read: Callable[[str], Any], wrong: float = 0.0) -> Score:
    """1.0 for an answer that `read` turns into the same value as the key, `wrong` for another."""

    def score(answer: str, entry: Entry) -> float:
        right = read(answer) == read(str(entry["answer"]))
        return 1.0 if right else wrong

    return score


def close(
    read: Callable[[str], Fraction], enough: Callable[[Fraction, Fraction, Entry], bool]
) -> Score:
    """Returns a scorer that gives 1.0 for a number that is close enough to the key. `enough`
    decides it: it gets their distance, the key and the entry.
    """

    def score(answer: str, entry: Entry) -> float:
        given, key = read(answer), rational(entry["answer"])
        if not enough(abs(given - key), key, entry):
            return 0.0
        return near(answer, entry["answer"], given == key)

    return score


def in_place(read: Callable[[str], Sequence[str]], wrong: float) -> Score:
    """The share of the key's parts that stand in their place in an answer of as many parts, `wrong`
    for another.
    """

    def score(answer: str, entry: Entry) -> float:
        given, key = read(answer), read(entry["answer"])
        return _share(given, key) if len(given) == len(key) else wrong

    return score


def literal(write: Callable[[Any], str]) -> Score:
    """1.0 for the key, 0.1 for a Python literal that is the key when written out."""

    def score(answer: str, entry: Entry) -> float:
        key = entry["answer"]
        if answer == key:
            return 1.0
        # A literal of the key is at most five times as long
        if len(answer) > min(8 * len(key) + 64, MAX_LITERAL):
            return 0.0
        try:
            return 0.1 if write(ast.literal_eval(answer)) == key else 0.0
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return 0.0

    return score


def same_text(answer: str, entry: Entry) -> float:
    """1.0 for the key; in part for a longer answer that contains it."""
    key: str = entry["answer"]
    return len(key) / len(answer) if key in answer else 0.0


def same_decimal(answer: str, entry: Entry) -> float:
    """Scores as `same_text` does, but reads numbers: +01,000.00 is 1000."""
    number, key = ungrouped(answer), ungrouped(entry["answer"])
    with suppress(InvalidOperation):
        if len(number) <= MAX_DIGITS and Decimal(number) == Decimal(key):
            return 1.0
    return same_text(number, {"answer": key})


def lower(text: str) -> str:
    """The text in small letters, without white space around it."""
    return text.lower().strip()


def lower_words(text: str) -> list[str]:
    """The words of a text, in small letters."""
    return bounded(text).lower().split()


def spaced(row: Sequence[Any]) -> str:
    """The cells of a row, with spaces between them."""
    return " ".join(map(str, row))


def based_integer(text: str) -> int:
    """A whole number, also in hexadecimal or another base that Python writes."""
    groups_no_decimals = "_" in text and not text.replace("_", "").isdecimal()
    if len(text) > MAX_DIGITS or groups_no_decimals:
        raise Unreadable("no whole number")
    return int(text, 0)


def fraction(answer: str, entry: Entry) -> float:
    """1.0 for the simplified a/b or LaTeX's \\frac{a}{b}, 0.1 for the fraction of the question,
    else at most 0.05.
    """
    metadata = entry["metadata"]
    top, bottom, _ = _fraction(answer)
    if (top, bottom) == (metadata["simplified_numerator"], metadata["simplified_denominator"]):
        return 1.0
    if (top, bottom) == (metadata["numerator"], metadata["denominator"]):
        return 0.1
    return 0.05 if len(answer) <= len(entry["answer"]) else 0.0


def fraction_written(answer: str, entry: Entry) -> str:
    """The answer's fraction in its own notation, between dollar signs if the answer and the key
    begin with one.
    """
    top, bottom, latex = _fraction(answer)
    plain = f"\\{latex}{{{top}}}{{{bottom}}}" if latex else f"{top}/{bottom}"
    return f"${plain}$" if entry["answer"][:1] == "$" == answer[:1] else plain


def prime_factors(answer: str, entry: Entry) -> float:
    """1.0 for the factors in any order, with x-signs between; 0.5 for others with the same
    product.
    """
    if len(answer) > MAX_DIGITS:
        return 0.0
    factors, key = _factors(answer), _factors(entry["answer"])
    if factors == key:
        return 1.0
    return 0.5 if math.prod(factors) == math.prod(key) else 0.01


def number_sorting(answer: str, entry: Entry) -> float:
    """1.0 for the same numbers in order. The library takes numbers that are one apart at most, and
    NaN.
    """
    if len(answer) > 8 * len(entry["answer"]) + 64 or "+" in answer:
        return 0.0
    given = json.loads(answer.replace("'", '"'))
    key = [Fraction(text) for text in ast.literal_eval(entry["answer"])]
    return float(isinstance(given, list) and [rational(each) for each in given] == key)


def complex_number(answer: str, entry: Entry) -> float:
    """1.0 for an a + bi within 0.01 of the key, less the farther off it is."""
    value = _complex(answer)
    distance = abs(value - complex(*entry["metadata"]["result"]))
    if distance <= 0.01:
        return near(answer, entry["answer"], value == _complex(entry["answer"]))
    return math.exp(-distance) if math.isfinite(distance) else 0.0


def advanced_geometry(answer: str, entry: Entry) -> float:
    """An angle to two digits, a point to three, or the radius as it is written."""
    metadata, key = entry["metadata"], entry["answer"]
    try:
        if metadata["task_type"] == "angle_measure":
            angle = rational(answer.strip().removesuffix("°"))
            right = rational(key.strip().removesuffix("°"))
            if round(float(angle), 2) != round(float(right), 2):
                return 0.05
            return near(answer, key, angle == right)
        if metadata["task_type"] == "orthocenter":
            match = _POINT.fullmatch(bare(answer))
            written = match.groups() if match else ()
            point = [float(rational(text)) for text in written]
            centre = [round(float(rational(text)), 3) for text in metadata["ortho"]]
            if [round(coordinate, 3) for coordinate in point] != centre:
                return 0.01
            return near(answer, key, point == centre)
    except Unreadable:
        return 0.01
    return 1.0 if answer == key else 0.01


def calendar_arithmetic(answer: str, entry: Entry) -> float:
    """A weekday, yes or no, or a number; less the farther off it is."""
    key, task = entry["answer"], entry["metadata"]["task"]
    if answer == key:
        return 1.0
    if task.startswith("weekday"):
        if answer in WEEKDAYS:
            return 0.1
        return 0.05 if answer.title() in WEEKDAYS else 0.0
    if task == "is_leap_year":
        return float(answer.lower() == key.lower())
    given, right = integer(answer), integer(key)
    if right in (given, 0):
        return float(given == right)
    share = abs(given - right) / abs(right)
    return min(NEARLY, math.exp(-5 * min(100.0, share)))


def backward(answer: str, entry: Entry) -> float:
    """1.0 for the word in any case, else the share of its letters, at most 0.8. The library adds
    floats, beyond 1.
    """
    given, key = answer.lower(), entry["answer"].lower()
    return 1.0 if given == key else min(0.8, _share(given, key))


def unjumbled(answer: str, entry: Entry) -> float:
    """The share of words that stand in their place, in any case, and less if the answer has more
    words than the key. The scorer of the library accepts more.
    """
    given, key = lower_words(answer), lower_words(entry["answer"])
    return _share(given, key) * len(key) / max(len(given), len(key))


def palindrome(answer: str, entry: Entry) -> float:
    """1.0 for any palindrome of these letters."""
    given, letters = bounded(answer).lower(), sorted(entry["metadata"]["letters"])
    if not given:
        return 0.0
    if given != given[::-1]:
        return 0.02 if sorted(filter(str.isalpha, given)) == letters else 0.0
    return 1.0 if sorted(given) == letters else 0.05


def partitions(answer: str, entry: Entry) -> float:
    """1.0 for a JSON list of all ways to cut the word into palindromes, in any order."""
    if len(answer) > 4 * len(entry["answer"]) + 64:
        return 0.0
    given = bounded_json(answer)
    if not isinstance(given, list) or not all(isinstance(each, list) for each in given):
        return 0.0
    said = set(map(tuple, given))
    key = set(map(tuple, entry["metadata"]["solution"]))
    return float(said == key and len(said) == len(given))


def real_roots(answer: str, entry: Entry) -> float:
    """1.0 for all roots, less the farther off they are. The library skips what is not a number."""
    parts = answer.split(",", MAX_ROOTS)
    if len(parts) > MAX_ROOTS:
        return 0.0
    given = sorted(rational(part) for part in parts if part.strip())
    key = [rational(text) for text in entry["answer"].split(",")]
    facts = entry["metadata"]
    if given == sorted(key):
        return 1.0
    left, nearness = list(key), list[float]()
    for root in given[: len(key)]:
        closest = min(left, key=lambda key_root: abs(key_root - root))
        left.remove(closest)
        distance = min(100.0, abs(float(closest - root)))
        nearness.append(math.exp(facts["exp_distance_factor"] * distance))
    extra = max(0, len(given) - len(key))
    penalty: float = (
        len(left) * facts["penalty_missing_factor"] + extra * facts["penalty_extra_factor"]
    )
    if not nearness:
        return 0.0
    return min(NEARLY, max(0.0, sum(nearness) / len(nearness) - penalty))


def three_digits(answer: str, entry: Entry) -> float:
    """1.0 for the number to three significant digits."""
    try:
        exact = rational(answer) == rational(entry["answer"])
        given = THREE_DIGITS.create_decimal(answer.strip())
        key = THREE_DIGITS.create_decimal(entry["answer"].strip())
    except (ArithmeticError, Unreadable):
        return 0.01
    return near(answer, entry["answer"], exact) if given == key else 0.01


def rectangle_count(answer: str, entry: Entry) -> float:
    """1.0 for the number, less for those near it."""
    distance = abs(integer(answer) - integer(entry["answer"]))
    return 1.0 if distance == 0 else max(0.0, 0.8 * (1 - distance / 5))


def knights_knaves(answer: str, entry: Entry) -> float:
    """1.0 for everybody's role, in any order; less if some are wrong. The library skips words that
    it does not know.
    """
    terms = entry["metadata"]["knight_knave_terms"]
    roles = frozenset((terms["knight"].lower(), terms["knave"].lower()))
    key, given = _roles(entry["answer"], roles), _roles(answer, roles)
    if given == key:
        return 1.0
    right = sum(key.get(name) == role for name, role in given.items())
    return 0.3 + 0.7 * right / len(key) if right and len(given) == len(key) else 0.0


def time_interval(answer: str, entry: Entry) -> float:
    """1.0 for the interval, less the farther off it is."""
    facts = entry["metadata"]
    if answer == entry["answer"]:
        return 1.0
    kind = facts["task_type"]
    distance = abs(_seconds(answer, kind) - _seconds(entry["answer"], kind))
    longest = (
        facts["max_time_difference_seconds"]
        if _is_time(kind)
        else facts["max_date_difference_days"] * 86400
    )
    return 1.0 if distance == 0 else max(0.0, min(NEARLY, 1 - float(distance / longest)))


def board_move(answer: str, entry: Entry) -> float:
    """1.0 for the place on the board, part for a longer text that names it."""
    key, given = entry["answer"].strip(), answer.upper()
    if given == key:
        return 1.0
    if key in given:
        return min(NEARLY, len(key) / len(given))
    return 0.05 if re.fullmatch(r"[A-Z]\d{1,4}", given) else 0.01


def sorted_words(answer: str, entry: Entry) -> float:
    """1.0 for the words in order, the share of those in their place for others."""
    given = [word.strip() for word in bounded(answer).split(",")]
    key = list(entry["metadata"]["sorted_words"])
    if given == key:
        return 1.0
    share = min(NEARLY, _share(given, key))
    return max(share, 0.2) if sorted(given) == sorted(key) else share


def _share(given: Sequence[str], key: Sequence[str]) -> float:
    """The share of the key's parts that stand in their place."""
    if not key:
        return 0.0
    same = sum(one == other for one, other in zip(given, key, strict=False))
    return same / len(key)


def _fraction(text: str) -> tuple[int, int, str]:
    """Numerator, denominator, and frac or dfrac if it is written in LaTeX."""
    latex = re.fullmatch(
        r"\\(d?frac)\s?\{\s?(\d{1,90})\s?\}\s?\{\s?(\d{1,90})\s?\}", bare(text), re.IGNORECASE
    )
    if latex:
        return int(latex[2]), int(latex[3]), latex[1].lower()
    plain = re.fullmatch(r"(-?\d{1,90})\s?/\s?(\d{1,90})", text.strip("$").strip())
    if plain is None:
        raise Unreadable("no fraction")
    return int(plain[1]), int(plain[2]), ""


def _factors(text: str) -> list[int]:
    factors = [factor.strip() for factor in text.split("×")]
    if len(factors) > 1 and not all(map(str.isdecimal, factors)):
        raise Unreadable("no factors")
    return sorted(map(int, factors))


def _complex(text: str) -> complex:
    """The complex number that is written as a + bi."""
    if text[:1] == "(" and text[-1:] == ")":
        text = text[1:-1]
    if not _COMPLEX.fullmatch(text):
        raise Unreadable("no complex number")
    return complex("".join(text.split()).lower().replace("i", "j"))


def _roles(text: str, roles: frozenset[str]) -> dict[str, str]:
    """Name -> role of "A is a knight, and B is a knave". Raises Unreadable where another word
    stands, or a name twice.
    """
    said = bare(text).lower()
    found = _ROLES.findall(said)
    given = {name: role for name, role in found if role in roles}
    if len(given) < len(found) or not _ROLES_ONLY.fullmatch(said):
        raise Unreadable("something else than who is what")
    return given


def _is_time(kind: str) -> bool:
    return kind.startswith("time")


def _seconds(text: str, kind: str) -> Fraction:
    """The seconds of 27 days, of HH:MM:SS.mmm, or of 27 days, HH:MM:SS."""
    if kind == "date":
        return Fraction(86400 * int(_parts(_DAYS, text)[0]))
    day, clock = ("0", text) if _is_time(kind) else _parts(_DAYS_AND_CLOCK, text)
    *whole, decimals = _parts(_CLOCK, clock)
    hours, minutes, seconds = (int(part or "0") for part in whole)
    return 86400 * int(day) + 3600 * hours + 60 * minutes + seconds + Fraction(f"0.{decimals or 0}")


def _parts(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    match = pattern.fullmatch(bare(text))
    if match is None:
        raise Unreadable("no interval")
    return match.groups()
