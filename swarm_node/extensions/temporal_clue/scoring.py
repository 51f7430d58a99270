"""From a completion to a score: the share of questions answered rightly.

An answer is a line such as `A. NAME`; the last line with a letter counts. The text may be hostile, so all of this is
plain string work in time linear in its length.
"""

import re
from collections.abc import Collection, Iterator, Mapping

FIRST = re.compile(r"[^A-Za-z\n]{0,40}([A-Z])[*_ \t]{0,8}[.):][*_ \t]{0,40}(?=\S)")
NEXT = re.compile(r"(?<=[\s,;|])[*_(\[]{0,4}([A-Z])[*_ \t]{0,8}[.):][*_ \t]{1,40}(?=\S)")
TIME = re.compile(r"\b(\d{1,2})[:.](\d\d)\s*([ap])?\.?\s*(?:m\b)?", re.IGNORECASE)
LONGEST = 200  # characters of an answer line that are read


def score(text: str, key: Mapping[str, str], options: Collection[str]) -> float:
    """Share of `key` (letter -> right answer) that `text` gives. `options`: all names that an answer may choose from.

    A line that is not exactly an option counts as the one option it mentions, and as wrong if it mentions several.
    """
    said = {letter: given for line in text.split("\n") for letter, given in _answers(line)}
    known = {_plain(option) for option in options}
    right = sum(_meant(said[letter], known) == _plain(answer) for letter, answer in key.items() if letter in said)
    return right / len(key)


def _answers(line: str) -> Iterator[tuple[str, str]]:
    """Letters and what stands behind them: one at the start of the line, and any that follow it in their order, as in
    `A. NAME, B. NAME`. A letter that does not come after the one before is part of a name."""
    if (mark := FIRST.match(line)) is None:
        return
    letter, start = mark[1], mark.end()
    for mark in NEXT.finditer(line, start):
        if mark[1] > letter:
            yield letter, _given(line[start : mark.start()])
            letter, start = mark[1], mark.end()
    yield letter, _given(line[start:])


def _given(text: str) -> str:
    return text[:LONGEST].rstrip(" \t,;|")


def _meant(line: str, known: Collection[str]) -> str | None:
    plain = _plain(line)
    if plain in known:
        return plain
    mentioned = [option for option in known if f" {option} " in f" {plain} "]
    longest = [m for m in mentioned if not any(m != other and f" {m} " in f" {other} " for other in mentioned)]
    return longest[0] if len(longest) == 1 else None


def _plain(text: str) -> str:
    """Lower case, words only, times as minutes of the day, so that 12:30 am, 12:30 AM and 00:30 are one."""
    words = re.findall(r"[^\W_]+", TIME.sub(_minutes, text).lower())
    return " ".join(words[1:] if words[:1] in (["the"], ["in"], ["at"]) and len(words) > 1 else words)


def _minutes(match: re.Match[str]) -> str:
    hour, minute, half = int(match[1]), int(match[2]), (match[3] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f" t{hour * 60 + minute} "
