"""Scorers of data sets whose answer is a number, a name or a few words. Rewards of right answers are the library's."""

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Context
from fractions import Fraction
from typing import Any

from swarm_node.environments.reasoning_gym.scorers.reading import (
    MAX_DIGITS,
    Unreadable,
    amount,
    bare,
    bounded,
    bounded_json,
    integer,
    rational,
    ungrouped,
)
from swarm_node.environments.reasoning_gym.scorers.spellings import near

Entry = Mapping[str, Any]
MAX_ROOTS = 64
NEARLY = 0.99  # the most that anything but the answer is worth: the library's measures of nearness reach 1
WEEKDAYS = frozenset(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"))
THREE_DIGITS = Context(prec=3)
_CLOCK = re.compile(r"(\d{1,4}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?")
_DAYS = re.compile(r"([+-]?\d{1,9})\s*(?:days?)?\.?", re.IGNORECASE)
_DAYS_AND_CLOCK = re.compile(r"(\d{1,9})\s+days?,\s*(.*)", re.IGNORECASE | re.DOTALL)
_ROLE = r"(\w{1,60}) is an? (\w{1,30})".replace(" ", r"[ \t\n,]{1,2}")
_BETWEEN = r"[ \t\r\n,.]{1,3}(?:and[ \t\n,]{1,2})?"
_ROLES = re.compile(rf"{_ROLE}(?:{_BETWEEN}|\Z)")
_ROLES_ONLY = re.compile(rf"{_ROLE}(?:{_BETWEEN}{_ROLE})*")
_POINT = re.compile(r"\(?([^(),]{1,60}),([^(),]{1,60})\)?")


def advanced_geometry(answer: str, entry: Entry) -> float:
    """An angle to two digits, a point to three, or the radius as it is written."""
    metadata = entry["metadata"]
    try:
        if metadata["task_type"] == "angle_measure":
            given, key = (rational(text.strip().removesuffix("°")) for text in (answer, entry["answer"]))
            right = round(float(given), 2) == round(float(key), 2)
            return near(answer, entry["answer"], given == key) if right else 0.05
        if metadata["task_type"] == "orthocenter":
            found = _POINT.fullmatch(bare(answer))
            point = [rational(text) for text in (found.groups() if found else ())]
            rounded = [round(float(rational(each)), 3) for each in metadata["ortho"]]
            right = [round(float(each), 3) for each in point] == rounded
            return near(answer, entry["answer"], [float(each) for each in point] == rounded) if right else 0.01
    except Unreadable:
        return 0.01
    return 1.0 if answer == entry["answer"] else 0.01


def same_integer(answer: str, entry: Entry) -> float:
    """1.0 for the number, also in hexadecimal or another base that Python writes."""
    if len(answer) > MAX_DIGITS or ("_" in answer and not answer.replace("_", "").isdecimal()):
        return 0.0
    return float(int(answer, 0) == int(entry["answer"], 0))


def calendar_arithmetic(answer: str, entry: Entry) -> float:
    """A weekday, yes or no, or a number; less the farther off it is."""
    key, task = entry["answer"], entry["metadata"]["task"]
    if answer == key:
        return 1.0
    if task.startswith("weekday"):
        return 0.1 if answer in WEEKDAYS else 0.05 if answer.title() in WEEKDAYS else 0.0
    if task == "is_leap_year":
        return float(answer.lower() == key.lower())
    given, right = integer(answer), integer(key)
    if right in (given, 0):
        return float(given == right)
    return min(NEARLY, math.exp(-5 * min(100.0, abs(given - right) / abs(right))))


def same_lower(answer: str, entry: Entry) -> float:
    """1.0 for the key, in capitals or not; little for anything else."""
    return 1.0 if answer.lower() == entry["answer"].strip().lower() else 0.01


def near_decimal(answer: str, entry: Entry) -> float:
    """1.0 for the number, up to one in the last of the places that were asked for."""
    places = entry["metadata"]["max_num_decimal_places"]
    given, key = rational(answer), rational(entry["answer"])
    return near(answer, entry["answer"], given == key) if abs(given - key) <= Fraction(1, 10**places) else 0.0


def same_rational(answer: str, entry: Entry) -> float:
    """1.0 for the number."""
    return float(rational(answer) == rational(entry["answer"]))


def same_amount(answer: str, entry: Entry) -> float:
    """1.0 for the number as people write amounts, little for another. The library takes the first one it finds."""
    return 1.0 if amount(answer) == rational(entry["answer"]) else 0.01


def same_characters(answer: str, entry: Entry) -> float:
    """1.0 for the key, the share of its characters for a text of its length."""
    key = entry["answer"]
    if answer == key:
        return 1.0
    return _share(answer, key) if len(answer) == len(key) else 0.01


def backward(answer: str, entry: Entry) -> float:
    """1.0 for the word in capitals or not, the share of its letters for another. The library adds floats, beyond 1."""
    given, key = answer.lower(), entry["answer"].lower()
    return 1.0 if given == key else min(0.8, _share(given, key))


def same_order(answer: str, entry: Entry) -> float:
    """1.0 for the words in their order, the share of those in their place for as many others."""
    if answer == entry["answer"]:
        return 1.0
    given, key = bounded(answer).lower().split(), entry["answer"].lower().split()
    return _share(given, key) if len(given) == len(key) else 0.05


def unjumbled(answer: str, entry: Entry) -> float:
    """1.0 for the words, in capitals or not, else the share of those in their place. The library takes more words."""
    given, key = bounded(answer).lower().split(), entry["answer"].lower().split()
    return 1.0 if given == key else _share(given, key) * len(key) / max(len(given), len(key))


def without_spaces(answer: str, entry: Entry) -> float:
    """1.0 for the name, in capitals or not."""
    return float(answer.replace(" ", "").lower() == entry["answer"].strip().lower())


def picked_number(answer: str, entry: Entry) -> float:
    """1.0 for the number, within a hundredth, in any notation."""
    given, key = rational(ungrouped(answer)), rational(entry["answer"])
    return near(answer, entry["answer"], given == key) if abs(given - key) < Fraction(1, 100) else 0.0


def palindrome(answer: str, entry: Entry) -> float:
    """1.0 for any palindrome of these letters."""
    given = bounded(answer).lower()
    if not given:
        return 0.0
    if given != given[::-1]:
        return 0.02 if sorted(filter(str.isalpha, given)) == sorted(entry["metadata"]["letters"]) else 0.0
    return 1.0 if sorted(given) == sorted(entry["metadata"]["letters"]) else 0.05


def partitions(answer: str, entry: Entry) -> float:
    """1.0 for a JSON list of all ways to cut the word into palindromes, in any order."""
    if len(answer) > 4 * len(entry["answer"]) + 64:
        return 0.0
    given = bounded_json(answer)
    if not isinstance(given, list) or not all(isinstance(each, list) for each in given):
        return 0.0
    said, key = {tuple(each) for each in given}, {tuple(each) for each in entry["metadata"]["solution"]}
    return float(said == key and len(said) == len(given))


def real_roots(answer: str, entry: Entry) -> float:
    """1.0 for all roots, less the farther off they are. The library skips what is no number."""
    parts = answer.split(",", MAX_ROOTS)
    if len(parts) > MAX_ROOTS:
        return 0.0
    given = sorted(rational(part) for part in parts if part.strip())
    key, facts = [rational(text) for text in entry["answer"].split(",")], entry["metadata"]
    if given == sorted(key):
        return 1.0
    left, nearness = list(key), list[float]()
    for root in given[: len(key)]:
        closest = min(left, key=lambda each: abs(each - root))
        left.remove(closest)
        nearness.append(math.exp(facts["exp_distance_factor"] * min(100.0, abs(float(closest - root)))))
    extra = max(0, len(given) - len(key))
    penalty = len(left) * facts["penalty_missing_factor"] + extra * facts["penalty_extra_factor"]
    return min(NEARLY, max(0.0, sum(nearness) / len(nearness) - penalty)) if nearness else 0.0


def three_digits(answer: str, entry: Entry) -> float:
    """1.0 for the number to three significant digits."""
    try:
        exact = rational(answer) == rational(entry["answer"])
        given, key = (THREE_DIGITS.create_decimal(text.strip()) for text in (answer, entry["answer"]))
    except (ArithmeticError, Unreadable):
        return 0.01
    if given != key:
        return 0.01
    return near(answer, entry["answer"], exact)


def rectangle_count(answer: str, entry: Entry) -> float:
    """1.0 for the number, less for those near it."""
    distance = abs(integer(answer) - integer(entry["answer"]))
    return 1.0 if distance == 0 else max(0.0, 0.8 * (1 - distance / 5))


def knights_knaves(answer: str, entry: Entry) -> float:
    """1.0 for who is what, in any order; part for some of it. The library skips words that it does not know."""
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
    longest = facts["max_time_difference_seconds"] if _is_time(kind) else facts["max_date_difference_days"] * 86400
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
    given, key = [word.strip() for word in bounded(answer).split(",")], list(entry["metadata"]["sorted_words"])
    if given == key:
        return 1.0
    share = min(NEARLY, _share(given, key))
    return max(share, 0.2) if sorted(given) == sorted(key) else share


def _share(given: Sequence[str], key: Sequence[str]) -> float:
    """Of the parts of the key, those that stand in their place."""
    return sum(one == other for one, other in zip(given, key, strict=False)) / len(key) if key else 0.0


def _roles(text: str, roles: frozenset[str]) -> dict[str, str]:
    """Name -> role of "A is a knight, and B is a knave". Unreadable where another word stands, or a name twice."""
    said = bare(text).lower()
    found = _ROLES.findall(said)
    given = {name: role for name, role in found if role in roles}
    if len(given) < len(found) or not _ROLES_ONLY.fullmatch(said):
        raise Unreadable("something else than who is what")
    return given


def _is_time(kind: str) -> bool:
    return kind.startswith("time")


def _seconds(text: str, kind: str) -> Fraction:
    """Of 27 days, of HH:MM:SS.mmm, or of 27 days, HH:MM:SS."""
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
