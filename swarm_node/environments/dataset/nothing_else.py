"""Whether an answer that a verifier takes for right says nothing else: one function for each
verifier by name.

A verifier compares one part of a text, such as its last number, and so has no eye for the rest of
it. These functions read all of the text, which `scoring/bound.py` has freed from the usual frames
(`**B**`, `The answer is B.`). Each gets the text, the reference answer as it is compared, and the
prompt: a unit or an option that the prompt names may stand beside the answer. They run where
verifiers run, on hostile text.

`longest` says how long a completion may be for one reference answer. To take another honest
spelling, let the function here account for it, and raise `RULES` in `scoring/bound.py`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from swarm_node.common.parsing import parse_json
from swarm_node.environments.dataset.verifiers import (
    MAX_CHARS,
    NUMBERS,
    UNIT,
    UNITS,
    bare_choice,
    final,
    forms_of,
    letter_of,
    number_count,
    quantity,
    text_of,
)
from swarm_node.scoring import bound
from swarm_node.scoring.bound import MORE, WHITE, plain

NothingElse = Callable[[str, Any, str], bool]
MAX_UNIT_CHARS = 24  # and of the space before it
FENCE_CHARS = len("```json\n\n```")

CURRENCY = "$€£¥₹"
_AROUND = ("**", "$", "\\(")  # before a number that has its unit outside of it
_WORDS = re.compile(r"[^\W\d_]+")
_OPTION = re.compile(r"(?:(?<=\s)|\A)\(?([A-Z])[.):]\)?[ \t]+")
_LETTER = re.compile(r"\(?([A-Za-z])(?:\)?[.):]|\))?")
_REPEAT = re.compile(r"(?<!\\)\{(?:\d{0,5},)?(\d{1,5})\}")
_COMMAND = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
# Commands and words of mathematics that say nothing by themselves
_COMMANDS = """
    frac dfrac tfrac cfrac sqrt cdot times div pm mp left right big Big bigl bigr pi e theta alpha
    beta gamma lambda mu phi sin cos tan cot sec csc arcsin arccos arctan log ln exp infty circ
    degree text textbf mathrm mathbf mathbb boxed begin end cup cap in notin le leq ge geq lt gt ne
    neq approx quad ldots cdots dots binom overline bar hat vec to rightarrow angle sum int lim
"""
COMMANDS = frozenset(_COMMANDS.split()) | frozenset(",;:!%${} \\()[]|_&#")
_MATH_WORDS = """
    sin cos tan cot sec csc arcsin arccos arctan log ln exp sqrt pi inf oo or and matrix pmatrix
    bmatrix vmatrix cases array cm km kg mm
"""
MATH_WORDS = frozenset(_MATH_WORDS.split())


def exact(said: str, answer: Any, prompt: str) -> bool:
    """Whether the text has only characters that the reference answer has in one of its Unicode
    forms, and plain white space.
    """
    return any({*said} <= {*form, *WHITE} for form in forms_of(text_of(answer)))


def number(said: str, answer: Any, prompt: str) -> bool:
    """One number with at most a sign of a currency and a unit; or the reference answer's own words
    and signs, with the same numbers between them. Where the reference answer has several numbers,
    as 12:30 and (1, 2) have, one of them is not an answer.
    """
    right = final(text_of(answer))
    if not plain(said, right, prompt):
        return False
    bare_right, _ = bound.unframed(right)
    same = _skeleton(said) == _skeleton(bare_right) and _values(said) == _values(bare_right)
    if same and len(said) <= bound.longest(right):
        return True
    if number_count(right) > 1:
        return False
    bare = said.lstrip(CURRENCY + " \\") if said[:1] in (*CURRENCY, "\\") else said
    for around in _AROUND:
        if bare.startswith(around):
            bare = bare.removeprefix(around).replace(around.replace("(", ")"), "", 1)
    found = NUMBERS.match(bare)
    if found is None or found.end() > bound.longest(right):
        return False
    return _is_unit(bare[found.end() :], right, prompt)


def choice(said: str, answer: Any, prompt: str) -> bool:
    """A letter, and after it nothing but the text that the prompt gives for this letter."""
    bare = bare_choice(said)
    found = _LETTER.match(bare)
    if found is None or not plain(said, prompt):
        return False
    rest = _words(bare[found.end() :])
    return not rest or rest in _options(prompt, found[1].upper())


def regex(said: str, answer: Any, prompt: str) -> bool:
    """Always: what the pattern matches is what its author wants."""
    return True


def equal_json(said: str, answer: Any, prompt: str) -> bool:
    """Always: the verifier reads all of the text, and takes no key twice."""
    return True


def mathematical(said: str, answer: Any, prompt: str) -> bool:
    """No words but those of the reference answer and of mathematics."""
    right = final(text_of(answer))
    allowed = MATH_WORDS | {word.casefold() for word in _WORDS.findall(right)}
    commands = COMMANDS | {*_COMMAND.findall(right)}
    words = _WORDS.findall(_COMMAND.sub(" ", said))
    if not plain(said, right, prompt) or not {*_COMMAND.findall(said)} <= commands:
        return False
    return all(len(word) == 1 or word.casefold() in allowed for word in words)


def longest(name: str, answer: Any, prompt: str) -> int:
    """The most characters of a completion that a verifier of this name pays for, without frames."""
    text = final(text_of(answer))
    match name:
        case "exact":
            return bound.longest(max(forms_of(text_of(answer)), key=len))
        case "number":
            return bound.longest(text) + MAX_UNIT_CHARS
        case "choice":
            options = _options(prompt, letter) if (letter := letter_of(answer)) else ()
            return bound.longest(max(options, key=len, default="")) + len("(B) ")
        case "regex":
            # A repeat with both ends, as {0,200}, makes room for so many characters
            repeats = map(int, _REPEAT.findall(text_of(answer)))
            return bound.longest(text_of(answer)) + min(sum(repeats), MAX_CHARS)
        case "json":
            value = answer if not isinstance(answer, str) else parse_json(answer)
            indented = len(json.dumps(value, indent=4)) + MORE
            return max(bound.longest(text_of(answer)), indented) + FENCE_CHARS
    return bound.longest(text)


BY_NAME: Mapping[str, NothingElse] = {
    "exact": exact,
    "number": number,
    "choice": choice,
    "regex": regex,
    "json": equal_json,
    "math": mathematical,
}


def _skeleton(text: str) -> str:
    """The text with a mark for each number."""
    return " ".join(NUMBERS.sub("\0", text).split())


def _values(text: str) -> list[Any]:
    """The value of each number of a text."""
    return [found and found[0] for found in map(quantity, NUMBERS.findall(text))]


def _is_unit(rest: str, right: str, prompt: str) -> bool:
    """Whether nothing but a unit stands after a number: one of `UNITS`, a word of the reference
    answer, or a word of the prompt.
    """
    unit = rest.strip(WHITE).removesuffix(".").strip(WHITE)
    if unit in ("", *CURRENCY, "\\%"):
        return True
    if not UNIT.fullmatch(unit) or len(rest) > len(unit) + 3:
        return False
    words = re.findall(r"[^\W\d_]+", f"{right}\n{prompt}")
    return unit.casefold() in UNITS.union(map(str.casefold, words))


def _options(prompt: str, letter: str) -> Iterator[str]:
    """The texts that a prompt gives for a letter: `B. Rome`, `(B) Rome` or `B: Rome`, to the end of
    the line or to the next letter.
    """
    for line in prompt.split("\n"):
        marks = [*_OPTION.finditer(line)]
        ends = [mark.start() for mark in marks[1:]]
        for mark, end in zip(marks, [*ends, len(line)], strict=False):
            if mark[1] == letter:
                yield _words(line[mark.end() : end])


def _words(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" ,;.")
