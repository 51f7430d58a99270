"""What a paid completion may say: its answer, and nothing next to it.

A completion that is right is paid, shared and trained on, with all its text. So wherever texts are
scored, a score above that of an empty completion has to pass `Bounded`, in three steps:

1. `unframed` takes what is usual around an answer off, such as `**B**` or `The answer is B.`: a
   closed list, which leaves no room for words of one's own.
2. What is left is at most `longest` of the right answer: twice its characters and eight more. An
   item knows its right answer (`answer`), or says itself how long a right one may be (`longest`).
3. An item that can tell reads what is left as a whole (`accounts`): no word stands there that does
   not belong to the answer. Of another item's text the signs are looked at (`plain`).

An item from outside that shows no answer, or whose own scorer does not pay the answer that it
shows, has no bound: nothing else says how long a right answer is. reasoning-gym's scorers keep the
bound themselves, since many of its questions have more than one right answer (`spellings.py`).

`RULES` is a part of the versions of data sets and task sets: raise it when other completions are
paid. A test holds which of many completions are.

It is in no digest of an environment, and in no version of the others, on purpose. These say which
question an address means and what its own scorer does; the bound is what a node makes of that
score, as its form of answers is (`environment.answer`), which peers choose each for itself, too. A
peer with another bound cannot have anything paid here: no reward travels, and each node scores what
it gets under its own bound. It can only publish groups that are uninformative here, which costs it
some standing as a peer to fetch from and nothing else. Were the bound in the address, nodes that
answer in tags and nodes that answer plainly would refuse all groups of each other.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

from swarm_node.scoring.contract import Item, is_score

RULES = 3
# A paid text has at most so many times the answer's characters, and so many more
TIMES, MORE = 2, 8
MAX_FRAMES = 4  # around one answer
WHITE = " \t\r\n"
SIGNS = frozenset("\t\r\n−×÷·→°²³€£¥₹") | frozenset(map(chr, range(32, 127)))
# A score from here on is right. It allows for rounding; reasoning-gym gives 0.99 to an empty game
# of life with one cell alive
RIGHT_FROM = 1.0 - 1e-9

# What may stand before and after an answer
FRAMES = (
    ("<answer>", "</answer>"),
    ("\\boxed{", "}"),
    ("\\textbf{", "}"),
    ("\\text{", "}"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ("$$", "$$"),
    ("$", "$"),
    ("**", "**"),
    ("*", "*"),
    ("`", "`"),
    ('"', '"'),
    ("'", "'"),
    ("(", ")"),
    ("[", "]"),
)
OPENING = re.compile(
    r"(?:(?:so|thus|therefore|hence),? )?"
    r"(?:(?:the |my )?(?:final |correct |right )?answer(?: is:?|:| =)"
    r"|it is|it's|that is|[a-z] =|=|####)"
    r"[ \n]",
    re.IGNORECASE,
)
CLOSING = re.compile(r" is (?:the|my) (?:final |correct |right )?answer", re.IGNORECASE)
_NUMBER = re.compile(
    r"([-+\u2212]?)((?:0|[1-9]\d{0,2}(?:,\d{3}){1,30}|[1-9]\d{0,89})(?:\.\d{1,90})?)", re.ASCII
)
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,89})(?:\.\d{1,90})?", re.ASCII)


def longest(answer: str) -> int:
    """The most characters of a completion that is paid for this answer, without its frame."""
    return TIMES * len(answer) + MORE


def answer_of(text: str) -> str:
    """The text without the white space around it, if that is little: much of it, or odd signs,
    could say something.
    """
    answer = text.strip(WHITE)
    begin = text.find(answer)
    end = len(text) - begin - len(answer)
    if max(begin, end) <= max(2, len(answer) // 4):
        return answer
    return text


def plain(text: str, *known: str) -> bool:
    """Whether a text has only signs of a keyboard, a few of arithmetic, and those of the `known`
    texts, in any case: odd white space and letters that look alike could say something.
    """
    own = frozenset("".join(known))
    in_any_case = own.union("".join(own).upper(), "".join(own).lower())
    return frozenset(text) <= SIGNS | in_any_case


def bound_of(answer: str, score: Callable[[str], float]) -> int | None:
    """`longest` of this answer; None if its own scorer does not take it for right."""
    return longest(answer) if answer and score(answer) >= RIGHT_FROM else None


def unframed(text: str) -> tuple[str, int]:
    """What is left of a text without usual frames, and how many characters these have. White space
    around it is taken off too, but is none of a frame.
    """
    left, framing = text.strip(WHITE), 0
    for _ in range(MAX_FRAMES):
        inside = _inside(left)
        if inside == left:
            break
        framing += len(left) - len(inside)
        left = inside.strip(WHITE)
    return left, framing


def _inside(text: str) -> str:
    """The text without the outermost frame; the text itself where it has none."""
    for begin, end in FRAMES:
        inside = text[len(begin) : len(text) - len(end)]
        if text == f"{begin}{inside}{end}" and inside and _belong(begin, inside, end):
            return inside
    if found := OPENING.match(text):
        return text[found.end() :]
    if found := CLOSING.search(text, max(0, len(text) - 32)):
        return text[: found.start()] if text[found.end() :] in ("", ".") else text
    ends_in_one_stop = text[-1:] == "." and text[-2:-1] not in ("", ".")
    return text[:-1] if ends_in_one_stop else text


def _belong(begin: str, inside: str, end: str) -> bool:
    """Whether both parts of a frame are of one pair: not in (1+2)*(3+4)."""
    bracket, closing = begin[-1], end[-1]
    if bracket == closing:
        return bracket not in inside
    if len(end) > 1:
        return begin not in inside and end not in inside
    still_open = accumulate((sign == bracket) - (sign == closing) for sign in inside)
    return min(still_open) >= 0


def number_of(text: str) -> Fraction | None:
    """The value of a number as people write one: +7, 1,234.50 and $7$ too; None for another
    text.
    """
    between_dollars = len(text) > 2 and text[0] == text[-1] == "$"
    match = _NUMBER.fullmatch(text[1:-1] if between_dollars else text)
    if match is None:
        return None
    value = Fraction(match[2].replace(",", ""))
    return -value if match[1] in ("-", "\u2212") else value


def same_number(text: str, answer: str) -> bool:
    """Whether a text is another way to write the number that is the answer, within the bound."""
    if not _PLAIN_NUMBER.fullmatch(answer) or len(text) > longest(answer):
        return False
    negative = text.lstrip("$")[:1] in ("-", "\u2212")
    return number_of(text) == Fraction(answer) and negative == answer.startswith("-")


class Bounded:
    """An item whose score of a text is no more than that of an empty one, if the text says more
    than its answer.
    """

    def __init__(self, item: Item) -> None:
        self._item, self.prompt = item, item.prompt

    def score(self, text: str) -> float:
        score = self._item.score(text)
        if not is_score(score) or score <= 0 or self._says_only_its_answer(text):
            return score
        return min(score, self._empty())

    def _says_only_its_answer(self, text: str) -> bool:
        left, framing = unframed(text)
        size = len(text) - framing
        if size > MORE and self._longest is not None and size > self._longest:
            return False
        accounts: Callable[[str], bool] | None = getattr(self._item, "accounts", None)
        if accounts is not None:
            return accounts(left)
        answer = getattr(self._item, "answer", None)
        if hasattr(self._item, "longest") or not isinstance(answer, str):
            return True
        return plain(left, answer, self.prompt) or self._longest is None

    @cached_property
    def _longest(self) -> int | None:
        if hasattr(self._item, "longest"):
            declared: int | None = self._item.longest
            return declared
        answer = getattr(self._item, "answer", None)
        return bound_of(answer, self._item.score) if isinstance(answer, str) else None

    def _empty(self) -> float:
        """The score of an empty text: 0 where the item gives none."""
        try:
            score = self._item.score("")
        except Exception:  # noqa: BLE001  a scorer may raise at an empty text
            return 0.0
        return score if is_score(score) else 0.0
