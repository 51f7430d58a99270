"""Numbers, grids and JSON out of a completion: all of the text or nothing, in bounded time, without eval.

The library searches: it takes the first number it finds, and skips what it cannot read. Whoever may say anything beside
the answer can hold anything and still be scored as right, so what is read here is read whole.
"""

import json
import re
from fractions import Fraction
from typing import Any

MAX_DIGITS = 400  # of a number that is worth reading
MAX_CHARS = 20_000  # of anything
MAX_ITEMS = 2000  # moves, cells, words
MAX_WRAPS = 4
WRAPS = {'"': '"', "'": "'", "`": "`", "*": "*", "$": "$", "(": ")", "[": "]"}

_NUMBER = re.compile(
    r"[+-]?(\d[\d_]{0,60}(\.\d{0,60})?|\.\d{1,60})(e[+-]?\d{1,3})?|[+-]?\d{1,40}\s*/\s*\d{1,40}", re.IGNORECASE
)
_INTEGER = re.compile(r"[+-]?\d[\d_]{0,60}")


class Unreadable(ValueError):
    """Not written as such a thing is."""


def rational(text: str) -> Fraction:
    """The exact value of a decimal number or a fraction of moderate size, in digits of any script."""
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
    return rational(bare(bare(text).removesuffix("%").lstrip("$€£").replace(",", "")))


def bare(text: str) -> str:
    """Without a full stop behind it, or a pair of quotes, brackets or asterisks around it."""
    text = bounded(text).strip()
    for _ in range(MAX_WRAPS):
        shorter = text.removesuffix(".").rstrip()
        if shorter[:1] in WRAPS and len(shorter) > 1 and shorter[-1] == WRAPS[shorter[0]]:
            shorter = shorter[1:-1].strip()
        if shorter == text:
            break
        text = shorter
    return text


def whole_rows(text: str) -> list[list[int]]:
    """Rows of whole numbers, with spaces, commas or bars between them, in brackets or not, and nothing else."""
    return [[integer(cell) for cell in row] for row in _rows(text)]


def rational_rows(text: str) -> list[list[Fraction]]:
    """Rows of numbers, written as for `whole_rows`."""
    return [[rational(cell) for cell in row] for row in _rows(text)]


def digit_rows(text: str) -> list[list[int]]:
    """Rows of single digits, which may also stand side by side."""
    return [[integer(digit) for cell in row for digit in cell] for row in _rows(text)]


def bounded_json(text: str) -> Any:
    """JSON that says everything once: an object that names a key twice hides what it said first."""
    if len(text) > MAX_CHARS:
        raise Unreadable("too long")
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Unreadable("no JSON") from error


def words(text: str, separators: str = ",") -> list[str]:
    """What stands between the separators and white space."""
    return bounded(text).translate(dict.fromkeys(map(ord, separators), " ")).split()


def bounded(text: str) -> str:
    """The text, if it is not too long to be looked at."""
    if len(text) > MAX_CHARS:
        raise Unreadable("too long")
    return text


def _rows(text: str) -> list[list[str]]:
    rows = [row for line in bounded(text).splitlines() if (row := words(bare(line.strip(" \t\r,|")), ",|"))]
    if sum(map(len, rows)) > MAX_ITEMS:
        raise Unreadable("too many cells")
    return rows


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable("a key that stands twice")
    return found


def _refuse(constant: str) -> Any:
    raise Unreadable(f"{constant} is no number")
