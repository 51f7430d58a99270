"""Verifiers by name. Each maps a completion and the reference answer of its question to a score in
[0, 1].

They run in a scoring process's sandboxed child, on the answer that the node found in a completion.
"""

import inspect
import json
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from swarm_node.common import loading
from swarm_node.environments.scored import FORMS, behind_hashes, in_box, in_tags, without_thinking
from swarm_node.scoring import bound
from swarm_node.scoring.bound import answer_of

MAX_CHARS = 4096  # of what is parsed or matched; a longer answer is wrong
MAX_NUMBER_CHARS = 100
NUMBERS = re.compile(
    r"[-+\u2212]?(?:\d{1,3}(?:[ "
    r"\u00a0\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,_']\d+)*|\.\d+)(?:[eE][-+]?\d{1,4})?"
    r"(?:/\d+(?![.,]?\d))?"
)
UNIT = re.compile(r"\s?([%°]?[^\W\d_]*(?:/[^\W\d_]+)?[²³]?)")
WARM = (
    "0.5",
    "2/4",
    "10\\%",
    "\\{1, 2\\}",
    "(1, 2]",
    "x^2",
    "x = \\sqrt{2}",
    "\\begin{pmatrix}1 & 2\\end{pmatrix}",
)
DECIMALS = Context(prec=50, traps=[])
FENCE = re.compile(r"\A```(?:json|JSON)?[ \r\n]{1,2}|```\Z")

# Units that need not stand in a reference answer or a prompt
_UNITS = """
    % ° °c °f k mm cm dm m km mi ft in yd mg g kg t lb oz ml cl dl l ms s sec min h hr hrs d kmh mph
    km/h m/s hz khz mhz ghz w kw kwh mw j kj n pa kpa bar v a mah ah ω kb mb gb tb kib mib gib b bit
    mm² cm² m² km² cm³ m³ mol rad deg usd eur gbp cents dollars euros
"""
UNITS = frozenset(_UNITS.split())
# Of them those that are also words of a sentence, where something stands after them
_WORD_UNITS = frozenset(unit for unit in UNITS if len(unit) == 1) | {"in"}
_BEHIND_UNIT = re.compile(r"[\s.!)\]*$`}]*(?:\Z|[,;:])")
# How an answer says which letter is its choice, and a second letter that takes it back
_SAYS_CHOICE = re.compile(
    r"(?i:\b(?:answer|option|choice)(?:\s+is|\s*:)*\s*:?)\s*[*(\s]*([A-Z])(?![^\W_])[)*.]*"
)
_BEGINS_CHOICE = re.compile(r"\(?([A-Za-z])\)?(?:[.):,]|\s*\Z)")
_ENDS_CHOICE = re.compile(r"(?:\A|[\s(])([A-Z])\)?\.?\Z")
_OTHER_BEHIND = re.compile(r"\s*(?:or|and|/|,|&)\s*\(?([A-Z])(?![^\W_])")
_OTHER_BEFORE = re.compile(r"(?<![^\W_])([A-Z])\)?\s*(?:or|and|/|,|&)\s*\(?[A-Z]\)?\.?\Z")
_BOLD = re.compile(r"(?<![\w*])\*\*([^*\s](?:[^*\n]{0,200}[^*\s])?)\*\*(?![\w*])")
_NAMED_CHOICE = re.compile(r"(?:option|choice)\s+(?=\(?[A-Z](?![^\W_]))", re.IGNORECASE)

ANY_OF = "any of"  # the key of a reference answer that is a list of right ones

Verifier = Callable[[str, Any], float]


def exact(completion: str, answer: Any) -> float:
    """Pays a completion whose answer is the same text as the reference answer, whatever the white
    space between its words, in the same or in another usual Unicode form.
    """
    words = answer_of(completion).split()
    return float(any(words == form.split() for form in forms_of(text_of(answer))))


def number(completion: str, answer: Any, tolerance: float = 0.0) -> float:
    """The last number of each is the same, and so is its unit where both have one. Where the
    reference answer has several numbers, as 12:30 has, all are the same, and what stands between.
    """
    answered, reference = final(completion), final(text_of(answer))
    said, right = quantity(answered), quantity(reference)
    if said is None or right is None:
        return 0.0
    (said_value, said_unit), (right_value, right_unit) = said, right
    if said_unit and right_unit and _other_unit(said_unit, right_unit):
        return 0.0
    count = number_count(reference)
    if count > 1 and _run(answered, count) != _run(reference, count):
        return 0.0
    distance = DECIMALS.abs(DECIMALS.subtract(said_value, right_value))
    size = DECIMALS.abs(right_value) or Decimal(1)
    allowed = DECIMALS.multiply(Decimal(repr(tolerance)), size)
    return float(distance.is_finite() and distance <= allowed)


def choice(completion: str, answer: Any) -> float:
    """Pays a completion that chooses the letter of the reference answer, and no other next to it.
    An integer as reference answer is a place, from 0: 1 is B.
    """
    right = letter_of(answer)
    return float(right is not None and _letter(final(completion)) == right)


def letter_of(answer: Any) -> str | None:
    """The letter of a reference answer of `choice`; None where it has none, as true and false."""
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < 26:
        return chr(ord("A") + answer)
    return _letter(text_of(answer))


def regex(completion: str, answer: Any) -> float:
    """The whole answer matches the pattern. The time limit ends a pattern that backtracks for ever,
    with its group.
    """
    said = answer_of(completion)
    return float(len(said) <= MAX_CHARS and re.fullmatch(text_of(answer), said) is not None)


def equal_json(completion: str, answer: Any) -> float:
    """Pays a completion with the same JSON value as the reference answer: objects in any order of
    keys, 1 and 1.0 alike. A code fence around the completion is removed. Numbers are compared to
    their last digit, and no object names a key twice, as that would hide the first value.
    """
    said = FENCE.sub("", answer_of(completion)[: MAX_CHARS + 1])
    try:
        right = _loaded(answer if isinstance(answer, str) else json.dumps(answer))
        return float(len(said) <= MAX_CHARS and _typed(_loaded(said)) == _typed(right))
    except (ValueError, RecursionError, ArithmeticError):
        return 0.0


def mathematical(completion: str, answer: Any) -> float:
    """Equal by math-verify. Its own time limit is off: that would need a signal, which the sandbox
    forbids.
    """
    from math_verify import parse, verify

    said, right = final(completion), text_of(answer)
    if len(said) > MAX_CHARS:
        return 0.0
    known = parse(
        right if "$" in right or "\\boxed" in right else f"${right}$", parsing_timeout=None
    )
    told = parse(said if "$" in said or "\\boxed" in said else f"${said}$", parsing_timeout=None)
    return float(verify(known, told, timeout_seconds=None))


def load(spec: Mapping[str, Any]) -> Verifier:
    """The verifier that `compile.py` wrote down: a named one, or the user's function. Raises what
    an import raises.
    """
    name = spec["name"]
    if form := spec.get("form"):  # the rows hold whole solutions, which shots show
        read, verify = FORMS[form].read, load({**spec, "form": ""})
        return lambda completion, answer: verify(completion, read(answer).strip())
    if name == "number":
        return lambda completion, answer: number(completion, answer, spec["tolerance"])
    if name == "math":
        # Now: a sandboxed child cannot open what the library imports at its first use
        for known in WARM:
            mathematical(known, known)
    return NAMED[name] if name in NAMED else _usable(loading.load(spec["place"]))


def _usable(function: Any) -> Verifier:
    """The user's function. TypeError, which ends the start, where it cannot be called as we do."""
    if not callable(function):
        raise TypeError("it is not a function")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError("it must be a plain function: write def, without async and yield")
    try:
        inspect.signature(function).bind("completion", "answer")
    except TypeError as error:
        raise TypeError(
            f"it must be callable as score(completion, answer), by position: {error}"
        ) from error
    except ValueError:  # a function in C has no signature
        pass
    verifier: Verifier = function
    return verifier


NAMED: Mapping[str, Verifier] = {
    "exact": exact,
    "number": number,
    "choice": choice,
    "regex": regex,
    "json": equal_json,
    "math": mathematical,
}


def text_of(answer: Any) -> str:
    """A reference answer as it is compared and shown."""
    return answer if isinstance(answer, str) else json.dumps(answer)


def alternatives(answer: Any) -> tuple[Any, ...]:
    """The reference answers of a row, of which any is right."""
    if isinstance(answer, dict) and list(answer) == [ANY_OF]:
        return tuple(answer[ANY_OF])
    return (answer,)


def shown(answer: Any) -> str:
    """A reference answer as it is compared, for a person."""
    several = alternatives(answer)
    return " | ".join(map(text_of, several))


def final(text: str) -> str:
    """The answer after the thinking of a text: what its last ####, box or tags hold, else all of
    it.
    """
    answer = answer_of(without_thinking(text))
    for read in (behind_hashes, in_box, in_tags):
        if part := read(answer).strip():
            return part
    return answer


def quantity(text: str) -> tuple[Decimal, str] | None:
    """The last number of a text, and the word after it. None if the text has no number."""
    numbers = deque(NUMBERS.finditer(text[-MAX_CHARS:]), maxlen=1)
    last = numbers[0] if numbers else None
    if last is None or len(last[0]) > MAX_NUMBER_CHARS:
        return None
    above, _, below = last[0].replace("\u2212", "-").partition("/")
    try:
        value = Decimal(_plain(above), DECIMALS)
        if below:
            value = DECIMALS.divide(value, Decimal(below))
    except InvalidOperation:
        return None
    return (value, _unit(last)) if value.is_finite() else None


def number_count(text: str) -> int:
    """How many numbers of a reference answer are compared: one where an equation ends in it."""
    if "=" in text:
        return 1
    return sum(1 for _ in NUMBERS.finditer(text[-MAX_CHARS:]))


def _run(text: str, count: int) -> tuple[list[Decimal | None], list[str]]:
    """The values of the last numbers of a text but the very last, and what stands between them."""
    text = text[-MAX_CHARS:]
    numbers = list(deque(NUMBERS.finditer(text), maxlen=count))
    quantities = [quantity(number[0]) for number in numbers[:-1]]
    values = [known and known[0] for known in quantities]
    between = [text[one.end() : following.start()] for one, following in pairwise(numbers)]
    return values, [" ".join(part.casefold().split()) for part in between]


def _unit(number: re.Match[str]) -> str:
    """The unit after a number: a word that ends the text, or one that is a unit wherever it
    stands. Other words after a number, as in "7 is the answer", are none.
    """
    unit = UNIT.match(number.string, number.end())
    word = unit[1].casefold() if unit else ""
    if unit and word and (word not in UNITS or word in _WORD_UNITS):
        return word if _BEHIND_UNIT.match(number.string, unit.end()) else ""
    return word


def _other_unit(one: str, other: str) -> bool:
    """Whether two units differ in more than an ending of the plural."""
    return one.removesuffix("s") != other.removesuffix("s")


def forms_of(text: str) -> tuple[str, ...]:
    """A text in the Unicode forms in which people and models write it: accents as signs of their
    own or not, and letters of one width. Not every form that Unicode calls compatible: x² is
    not x2.
    """
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    narrow = "".join(map(_of_one_width, text))
    return tuple(dict.fromkeys((text, composed, decomposed, narrow)))


def _of_one_width(sign: str) -> str:
    wide = unicodedata.decomposition(sign).startswith(("<wide>", "<narrow>"))
    ligature = "\ufb00" <= sign <= "\ufb06"
    return unicodedata.normalize("NFKC", sign) if wide or ligature else sign


def _plain(token: str) -> str:
    """The number without thousands separators and with a point: of comma and point, the later is
    the decimal sign.
    """
    mantissa, e, exponent = re.sub(r"[ \u00a0\u202f_']", "", token).lower().partition("e")
    comma, point = mantissa.rfind(","), mantissa.rfind(".")
    if comma > point and not re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+", mantissa):
        mantissa = mantissa.replace(".", "").replace(",", ".")
    elif comma >= 0:
        mantissa = mantissa.replace(",", "")
    elif mantissa.count(".") > 1:
        mantissa = mantissa.replace(".", "")
    return mantissa + e + exponent


def bare_choice(text: str) -> str:
    """A choice without its frames, the signs of bold text and a word before its letter: `**B**.
    Paris`, `option B`.
    """
    bare, _ = bound.unframed(_BOLD.sub(r"\1", text, count=2))
    return _NAMED_CHOICE.sub("", bare, count=1) if _NAMED_CHOICE.match(bare) else bare


def _letter(text: str) -> str | None:
    """The letter that a text chooses: at its beginning, after "the answer is", or at its end,
    where it stands by itself: "B", "(b)", "**B**", "B. Rome", "so it is B.", "The answer is B
    because". None where it names two.
    """
    whole = text[-MAX_CHARS:]
    bare = bare_choice(whole)
    if begin := _BEGINS_CHOICE.match(bare):
        behind = bare[begin.end() - (begin[0][-1:] in ",") :]
        return _alone(begin[1].upper(), _OTHER_BEHIND.match(behind))
    letters: set[str | None] = set()
    for choice_in_words in _SAYS_CHOICE.finditer(whole):
        other = _OTHER_BEHIND.match(whole, choice_in_words.end())
        letters.add(_alone(choice_in_words[1], other))
    if letters:
        return letters.pop() if len(letters) == 1 else None
    end = _ENDS_CHOICE.search(bare)
    return _alone(end[1], _OTHER_BEFORE.search(bare)) if end else None


def _alone(letter: str, other: re.Match[str] | None) -> str | None:
    """The letter, unless another one stands next to it."""
    return letter if other is None or other[1] == letter else None


def _loaded(text: str) -> Any:
    """The value of JSON, with each number as it is written. Raises ValueError for a key that stands
    twice.
    """
    return json.loads(text, object_pairs_hook=_once, parse_float=Decimal)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key that stands twice")
    return members


def _typed(value: Any) -> Any:
    """The value with its booleans marked, since Python takes true and 1 for equal."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return {key: _typed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_typed(element) for element in value]
    return value
