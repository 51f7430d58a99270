"""Reads numbers, grids and JSON from a completion: all of the text or nothing, in bounded time,
without eval.

The library searches: it takes the first number it finds, and skips what it cannot read. A
completion that may say more than the answer can hold anything and still be scored as right, so
these functions read the whole text.
"""

import json
import re
from fractions import Fraction
from itertools import accumulate
from typing import Any

MAX_DIGITS = 400  # of a number that is worth reading
MAX_CHARS = 20_000  # of anything
MAX_ITEMS = 2000  # moves, cells, words
MAX_WRAPS = 6
WRAPS = {'"': '"', "'": "'", "`": "`", "*": "*", "$": "$", "(": ")", "[": "]"}

_NUMBER = re.compile(
    r"[+-]?(\d[\d_]{0,60}(\.\d{0,60})?|\.\d{1,60})(e[+-]?\d{1,3})?|[+-]?\d{1,40}\s*/\s*\d{1,40}",
    re.IGNORECASE,
)
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3}){1,30}(\.\d*)?")
_IDLE = re.compile(r",\s*,|\A\s*,|,\s*\Z|\+|-\s*0(?![.\d])")
_INTEGER = re.compile(r"[+-]?\d[\d_]{0,60}")


class Unreadable(ValueError):
    """The text is not written as the number, grid or statement that it should be."""


def rational(text: str) -> Fraction:
    """The exact value of a decimal number or a fraction of moderate size, in digits of any
    script.
    """
    cleaned = text.strip()
    if len(cleaned) > MAX_DIGITS or not _NUMBER.fullmatch(cleaned):
        raise Unreadable("no number")
    top, _, bottom = cleaned.partition("/")
    return Fraction(top.strip()) / Fraction(bottom.strip() or "1")


def integer(text: str) -> int:
    """A whole number of at most 61 digits."""
    cleaned = text.strip()
    if not _INTEGER.fullmatch(cleaned):
        raise Unreadable("no whole number")
    return int(cleaned)


def amount(text: str) -> Fraction:
    """A number as people write amounts: $1,000 and 20. and 15 % too."""
    plain = bare(text).removesuffix("%").strip()
    if plain[:1] in ("$", "€", "£"):
        plain = plain[1:]
    return rational(bare(ungrouped(plain)))


def ungrouped(text: str) -> str:
    """The number without the commas between its thousands; unchanged unless all of them are
    there.
    """
    return text.replace(",", "") if _GROUPED.fullmatch(text) else text


def bare(text: str) -> str:
    """The text without a full stop after it, and without quotes, brackets, asterisks or dollar
    signs around it.
    """
    text, stopped = bounded(text).strip(), False
    for _ in range(MAX_WRAPS):
        ends_in_one_stop = text[-1:] == "." and text[-2:-1].strip() not in ("", ".")
        if not stopped and ends_in_one_stop:
            text, stopped = text[:-1], True
        elif _is_wrapped(text):
            text = text[1:-1].strip()
        else:
            break
    return text


def _is_wrapped(text: str) -> bool:
    """Whether its first and last signs belong together: not in (1+2)*(3+4)."""
    inside, first = text[1:-1], text[:1]
    if not inside or WRAPS.get(first) != text[-1]:
        return False
    if first in "([":
        still_open = accumulate((sign == first) - (sign == WRAPS[first]) for sign in inside)
        return min(still_open) >= 0
    return first in "*$" or first not in inside


def whole_rows(text: str) -> list[list[int]]:
    """Rows of whole numbers, with spaces or commas between them, in brackets or not, and nothing
    else.
    """
    return [list(map(integer, row)) for row in _rows(text)]


def rational_rows(text: str) -> list[list[Fraction]]:
    """Rows of decimal numbers, written as for `whole_rows`."""
    if "/" in text:
        raise Unreadable("a fraction")
    return [list(map(rational, row)) for row in _rows(text)]


def digit_rows(text: str) -> list[list[int]]:
    """Rows of single digits, which may also stand side by side."""
    rows = ["".join(row) for row in _rows(text)]
    if sum(map(len, rows)) > MAX_ITEMS:
        raise Unreadable("too many cells")
    return [list(map(integer, row)) for row in rows]


def bounded_json(text: str) -> Any:
    """The value of JSON in which no object names a key twice, as that would hide the first
    value.
    """
    if len(text) > MAX_CHARS:
        raise Unreadable("too long")
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Unreadable("no JSON") from error


def bounded(text: str) -> str:
    """The text; Unreadable if it has more than `MAX_CHARS` characters."""
    if len(text) > MAX_CHARS:
        raise Unreadable("too long")
    return text


def _rows(text: str) -> list[list[str]]:
    if _IDLE.search(bounded(text)):
        raise Unreadable("separators between nothing")
    lines = [line for line in text.split("\n") if line.strip()]
    rows = [bare(line.strip(" \t\r,")).replace(",", " ").split() for line in lines]
    if not all(rows):
        raise Unreadable("a row of nothing")
    if sum(map(len, rows)) > MAX_ITEMS:
        raise Unreadable("too many cells")
    return rows


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable("a key that stands twice")
    return found


def _refuse(constant: str) -> Any:
    raise Unreadable(f"{constant} is not a number")
