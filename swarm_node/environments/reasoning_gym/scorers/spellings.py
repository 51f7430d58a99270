"""How a right answer may be spelt: the answer has to account for what a completion says, sign by
sign.

A right answer that carries free text would be paid, shared and trained on. So a reward above that
of an empty answer has to pass `accounted`: the completion is the answer in one of a few usual
spellings, or says the answer's value in at most one and a half times its length. One that is only
near the answer may not be longer: then nothing fits next to it. Nothing is paid beyond the bound
that holds for all environments (`scoring/bound.py`).
"""

import re
from collections.abc import Iterator

from swarm_node.scoring.bound import longest

LONGEST = 1.5  # times the answer's own length
ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
RIGHT = 1.0

_AROUND = ("{}.", '"{}"', "'{}'", "[{}]", "({})", "**{}**")
_AROUND_NUMBERS = ("${}", "{}%", "{}e0")
_BEFORE_NUMBERS = ("+{}", "0{}")  # not before a minus
_INSTEAD = (
    (" ", "  "), (" ", "\t"), (" ", ""), (",", ", "), (", ", ","), (" ", ","), (" ", ", "),
    ("\n", " \n"), ("\n", "\n\n"), ("\n", "\r\n"), ("\n", " "), ("-", "−"), ("→", "->"), ("*", "×"),
    (", and ", ", "),
)  # fmt: skip
_NUMBER = re.compile(r"-?\d{1,90}(\.\d+)?", re.ASCII)
_DIGITS = frozenset("0123456789")
_OTHER_DIGITS = frozenset("٠١٢٣٤٥٦٧٨٩")
_ASCII = frozenset("\t\n\r" + "".join(map(chr, range(32, 127)))) - {"\\"}


def accounted(answer: str, written: str, reward: float) -> bool:
    """Whether this answer says no more than `written`, the answer as plainly as it can be written.

    `reward` is what its scorer gives for it; below 1 the answer is near and may not be longer than
    `written`.
    """
    if answer == written:
        return True
    most = len(written) * (LONGEST if reward >= RIGHT else 1)
    if len(answer) <= most and (_ASCII.issuperset(answer) or _is_plain(answer, written)):
        return True
    return len(answer) <= longest(written) and answer in spellings(written)


def near(answer: str, key: str, exact: bool) -> float:
    """The reward of an answer within a data set's tolerance: 1.0 if it is exact or no longer than
    the key, else 0.0.
    """
    return float(exact or len(answer) <= len(key))


def spellings(written: str) -> Iterator[str]:
    """The usual spellings, whatever their length."""
    yield from (written.lower(), written.upper(), written.title(), written.translate(ARABIC))
    yield from (around.format(written) for around in _AROUND)
    yield from (written.replace(sign, other) for sign, other in _INSTEAD)
    if _NUMBER.fullmatch(written):
        yield from (around.format(written) for around in _AROUND_NUMBERS)
        yield from (before.format(written) for before in _BEFORE_NUMBERS if written[0] != "-")
        yield f"{written}0" if "." in written else f"{written}.0"


def _is_plain(answer: str, written: str) -> bool:
    """Whether the signs of `answer` are plain or those of `written`, in any case, and its digits of
    one script.
    """
    signs = frozenset(answer)
    if signs & _DIGITS and signs & _OTHER_DIGITS:
        return False
    return signs <= _ASCII | _OTHER_DIGITS | frozenset(
        "−×→" + written + written.lower() + written.upper()
    )
