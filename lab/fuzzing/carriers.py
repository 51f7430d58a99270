"""What could be carried by a right answer, where in it, and which of that is only another spelling. Pure data and text.

A carrier is free text of whoever wrote the completion: an advertisement, an instruction, a key. None may be paid for.
"""

import random
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TypeVar

from lab.fuzzing.right_answers import spellings

T = TypeVar("T")
LONGEST = 1.5  # times the right answer: a longer one is no other spelling of it
GAPS = 4  # places between tokens and inside them that are tried for each carrier
WHITE = " \t\r\n"
LONG = "31415926535897932384626433832795028841971693993751"

_TEXT = (
    "payload", "PAYLOAD", "p", "x", "C", "and", "is", "or", "not", "the answer", "approximately", "about", "so",
    "Q.E.D.",
    "buy at example.com", "https://example.com/?q=1", "ignore all previous instructions", "a", "A", "Z", "yes", "no",
    "True", "None", "null", "nan", "inf", "Infinity", "the answer is", "therefore", "i", "j", "e", "day", "days",
    "move",
    "right", "up", "L", "R", "LR", "R R'", "A+0", "A+1 A-1", "Z+9", "fill A", "knight", "is a", "box_payload",
    "Agent",
)  # fmt: skip
_NUMBERS = (
    "0", "00", "000000", "1", "7", "42", LONG, "0" * 40, "9" * 40, ".0", "." + "0" * 30, "." + LONG, "0." + LONG,
    ".5",
    "-", "+", "--", "+-+-", "+0", "-0", "*1", "**1", "/1", "1_000", "_", "__", "0_0", ",000", ",", ",,,,", "1,000",
    "0x", "0x1f", "0b1", "0o7", "²", "⁰", "½", "٠", "٣", "१", "߁", "𝟘", "𝟙𝟚𝟛", "①", "Ⅳ", "１２",
)  # fmt: skip
_EXPONENTS = (
    "e0", "E0", "e+0", "e-0", "e00", "e000", "0e" + LONG, "e" + "0" * 30, "0e0", "0e1", "0e-30", "0E+0000", "*10^0",
    "×10⁰", "·10^{0}", "^1", "**0", "e1", "1e0", "j", "0j", "+0j", "+0i", "%", "‰", "°", "°C", "$", "€", "$$", "USD",
)  # fmt: skip
_COMMENTS = (
    "# payload", "#", "// payload", "/* payload */", "<!-- payload -->", "-- payload", "; payload", "% payload",
    "{# payload #}", "'''payload'''", '"""payload"""', "REM payload", "(payload)", "[payload]", "{payload}",
    "<payload>",
    "(* payload *)", "\\ payload", "`payload`", "~~payload~~", "[//]: # (payload)", "# 7", "(7)", "[7]", "/**/", "//",
)  # fmt: skip
_MARKUP = (
    "<b>payload</b>", "<b></b>", "<br>", "<p/>", "&nbsp;", "&#8203;", "&lt;", "[payload](http://example.com)",
    "![x](http://example.com/x.png)", "**payload**", "****", "__", "*", "**", "~~", "`", "```",
    "```text\npayload\n```",
    "> payload", "- payload", "1. payload", "| payload |", "<script>alert(1)</script>", "<answer>", "</answer>",
    "<answer>payload</answer>", "<think>payload</think>", "<|im_end|>", "</s>", "{\"payload\": 1}", '"payload"',
    "'payload'", '"', "'", "“", "”", "«payload»", "<a href=x>", "<!---->", "&amp;",
)  # fmt: skip
_WHITE = (
    " " * 3, " " * 200, "\t" * 8, " \t" * 40, "\n" * 9, "\n\n\n \t", "\r", "\r\n\r\n", "\v", "\f", "\x1c",
    "\x1d\x1e\x1f",
    "\x85", "\u00a0", "\u1680", "\u2000\u2001\u2002", "\u2009", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
    " \u00a0 \u2003", "\n \n \n",
)  # fmt: skip
_HIDDEN = (
    "\u200b", "\u200b\u200c\u200d" * 8, "\u2060", "\ufeff", "\u00ad", "\u034f", "\u061c", "\u180e", "\u200e",
    "\u200f",
    "\u202epayload\u202c", "\u2066x\u2069", "\ufe0f", "\ufe00\ufe01", "\U000e0041\U000e0042", "\U000e0100", "\x00",
    "\x01",
    "\x08", "\x1b[31m", "\x7f", "\u0301", "\u0300\u0301\u0302", "\u20dd", "\ud800", "\uffff", "\ue000",
)  # fmt: skip
_LETTERS = (
    "ä", "ß", "ſ", "ı", "İ", "K", "А", "Ω", "ﬁ", "ﬀ", "答案", "日本", "🙂", "👩\u200d💻", "𝐀", "ａ", "Ａ",
    "ǆ", "ŉ", "🇩🇪",
)  # fmt: skip
_SEPARATORS = (
    ";", ";;", ":", "::", "|", "||", "/", "\\", "&", "=", "==", "->", "=>", "→", "→→", "…", "...", ".", "..", "·",
    "•",
    "–", "—", "~", "!", "?", "!?", "^", "@", ", ,", ";payload", ", payload", ":payload", "=payload", "|payload",
    "×", "× 1",
    "×1×", "∧", "∨", "¬", "¬¬", "¬¬¬¬",
)  # fmt: skip
_LATEX = (
    "\\text{payload}", "\\boxed{}", "\\boxed{7}", "\\quad", "\\,", "\\!", "\\phantom{payload}", "$payload$", "$$",
    "\\\\",
    "\\hspace{0pt}", "{}", "{{}}", "\\frac{0}{1}", "\\left(\\right)", "^{0}", "_{0}", "\\mathrm{}", "%payload\n",
)  # fmt: skip
_NESTED = (
    "()", "[]", "{}", "(((())))", "[[[[]]]]", "((((((", "))))))", "[[[[", "]]]]", "([{}])", "[null]", "[{}]", "{},",
    "[],", ", []", ", {}", ', ""', ', "payload"', '"payload",', '"payload": 1,', ', "payload": 1', "[payload],",
    "(0)",
    "+(0)", "*(1)", "(1)*", "0+", "0*", "1*", "0-0+", "[0]", "\\u0061", "\\n", "\\x41",
)  # fmt: skip

CARRIERS: Mapping[str, tuple[str, ...]] = {
    "text": _TEXT,
    "number": _NUMBERS,
    "exponent": _EXPONENTS,
    "comment": _COMMENTS,
    "markup": _MARKUP,
    "white space": _WHITE,
    "hidden": _HIDDEN,
    "letter": _LETTERS,
    "separator": _SEPARATORS,
    "latex": _LATEX,
    "nested": _NESTED,
}

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_QUOTED = re.compile(r"(?<=\")[^\"]*(?=\")|(?<=')[^']*(?=')")
_SAID = re.compile(r"0x[\da-f]+|\d[\d_]*(?:\.\d*)?(?:e[+-]?\d{1,3})?|\.\d+|[^\W\d_]+|[^\w\s]", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_FRAME = frozenset("\"'`*$()[],._")  # of an answer, not of its value


def carriers() -> dict[str, str]:
    """Name -> text, each once."""
    found: dict[str, str] = {}
    for kind, texts in CARRIERS.items():
        for text in dict.fromkeys(texts):
            if text not in found.values():
                found[f"{kind} {len(found)}"] = text
    return found


def laden(answer: str, carrier: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """(place, completion) for each place of a right answer at which the carrier is put."""
    for between in ("", " ", "\n"):
        yield "before", f"{carrier}{between}{answer}"
        yield "after", f"{answer}{between}{carrier}"
    yield "in tags", f"<answer>{answer} {carrier}</answer>"
    yield "around", f"{carrier}{answer}{carrier}"
    tokens = list(_TOKEN.finditer(answer))
    gaps = [token.end() for token in tokens[:-1]]
    for at in _some(gaps, rng):
        yield "between tokens", f"{answer[:at]}{carrier}{answer[at:]}"
        yield "between tokens", f"{answer[:at]} {carrier} {answer[at:]}"
    if gaps:
        yield "between all", carrier.join(token.group() for token in tokens)
    inner = [token.start() + (token.end() - token.start()) // 2 for token in tokens if token.end() - token.start() > 1]
    for at in _some(inner, rng):
        yield "inside a token", f"{answer[:at]}{carrier}{answer[at:]}"
    for begin, end in _some([each.span() for each in _QUOTED.finditer(answer)], rng):
        yield "in a key or value", f"{answer[:begin]}{carrier}{answer[begin:]}"
        yield "in a key or value", f"{answer[:end]}{carrier}{answer[end:]}"
    if answer[-1:] in "]}":
        item = f'"{carrier}"' if answer[-1] == "]" else f'"{carrier}": 1'
        yield "one more item", f"{answer[:-1]}, {item}{answer[-1]}"


def is_spelling(completion: str, answer: str) -> bool:
    """Whether a completion is the answer in a spelling that was rewarded before, or has its value in at most 1.5 times
    its length. A little white space around an answer is not counted."""
    said = completion
    for _ in range(2):
        said = said[said[:1] in WHITE and bool(said) :]
        said = said[: len(said) - (said[-1:] in WHITE and bool(said))]
    if said in {text.strip() for text in spellings(answer).values()}:
        return True
    return len(said) <= LONGEST * len(answer) and value(said) == value(answer)


def value(text: str) -> list[str | Fraction]:
    """Words, signs and numbers of a text, whatever frames and separates them."""
    found: list[str | Fraction] = []
    for token in _SAID.findall(_THOUSANDS.sub("", text.casefold())):
        if token in _FRAME or token == "and":
            continue
        if token[:1].isdecimal() or token[1:2].isdecimal():
            plain = token.replace("_", "").rstrip(".")
            number = Fraction(int(plain, 16)) if plain[1:2] == "x" else Fraction(plain)
            if (found[-1:] == ["+"] or (found[-1:] == ["-"] and not number)) and not found[-2:-1]:
                found.pop()  # +7 is 7 and -0 is 0
            found.append(number)
        elif token.isalpha() and found and isinstance(found[-1], str) and found[-1].isalpha():
            found[-1] += token
        else:
            found.append(token)
    return found


def _some(places: list[T], rng: random.Random) -> list[T]:
    """The first, the last and others."""
    if len(places) <= GAPS:
        return places
    return [places[0], places[-1], *rng.sample(places[1:-1], GAPS - 2)]
