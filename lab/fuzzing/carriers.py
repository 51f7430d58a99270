"""Free texts that a right answer could carry, the places for them, and whether a completion is only
another spelling. Pure data (carriers.json) and text.

A carrier is free text by the author of the completion: an advertisement, an instruction, a key.
None may be paid for.
"""

import json
import random
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from lab.fuzzing.right_answers import spellings
from swarm_node.scoring.bound import same_number

T = TypeVar("T")
# Times the length of the right answer: a longer completion is not a spelling of it, unless it is a
# usual one or a number
LONGEST = 1.5
GAPS = 4  # places of a kind (such as between tokens) that are tried for each carrier
WHITE = " \t\r\n"

CARRIERS: Mapping[str, list[str]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_QUOTED = re.compile(r"(?<=\")[^\"]*(?=\")|(?<=')[^']*(?=')")
_SAID = re.compile(
    r"0x[\da-f]+|\d[\d_]*(?:\.\d*)?(?:e[+-]?\d{1,3})?|\.\d+|[^\W\d_]+|[^\w\s]", re.IGNORECASE
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_FRAME = frozenset("\"'`*$()[],._")  # characters around and between values, not part of them


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
    inner = [
        token.start() + (token.end() - token.start()) // 2
        for token in tokens
        if token.end() - token.start() > 1
    ]
    for at in _some(inner, rng):
        yield "inside a token", f"{answer[:at]}{carrier}{answer[at:]}"
    for begin, end in _some([each.span() for each in _QUOTED.finditer(answer)], rng):
        yield "in a key or value", f"{answer[:begin]}{carrier}{answer[begin:]}"
        yield "in a key or value", f"{answer[:end]}{carrier}{answer[end:]}"
    if answer[-1:] in "]}":
        item = f'"{carrier}"' if answer[-1] == "]" else f'"{carrier}": 1'
        yield "one more item", f"{answer[:-1]}, {item}{answer[-1]}"


def is_spelling(completion: str, answer: str) -> bool:
    """Whether a completion is one of the `spellings` of the answer, another way to write it where
    it is a number, or has its value in at most 1.5 times its length. Up to two characters of white
    space at each end are not counted.
    """
    said = completion
    for _ in range(2):
        said = said[said[:1] in WHITE and bool(said) :]
        said = said[: len(said) - (said[-1:] in WHITE and bool(said))]
    if same_number(said, answer):
        return True
    if said in {text.strip() for text in spellings(answer).values()}:
        return True
    return len(said) <= LONGEST * len(answer) and value(said) == value(answer)


def value(text: str) -> list[str | Fraction]:
    """The words, signs and numbers of a text, without what frames and separates them."""
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
    """At most GAPS of the places: the first, the last and random others."""
    if len(places) <= GAPS:
        return places
    return [places[0], places[-1], *rng.sample(places[1:-1], GAPS - 2)]
