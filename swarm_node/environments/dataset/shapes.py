"""How people lay out questions: the columns of known data sets, options of multiple choice, and
answers that are objects or lists.

**Options** stand in one column (MMLU's `choices`, ARC's `{"text": [...], "label": [...]}`, MedQA's
`{"A": ..., "B": ...}`), or in columns `A` to `D`, `option1`, `ending0` and the like. They are shown
below the question, each after its letter, and the reference answer becomes a letter. Files say the
right option by its letter, its label, its text or its position, from 0 or from 1. Which of these a
file means is decided over all of its rows (`Ways`): the way by which most of them have an answer,
whatever their order, so that all who have the file read the same.

**Answers** that are objects or lists are read where it is known what they mean: SQuAD's texts and
TriviaQA's aliases are answers of which any is right (`ANY_OF`). Others are skipped, in one line
that says what to do, unless the verifier compares JSON or is the user's own.
"""

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

from swarm_node.common.parsing import parse_json
from swarm_node.environments.dataset.bounds import Row
from swarm_node.environments.dataset.verifiers import ANY_OF

# The first that a file has
PROMPTS = (
    "prompt", "question", "problem", "messages", "Prompt", "Question", "Problem", "query",
    "question_stem", "ctx", "goal", "sentence", "instruction",
)  # fmt: skip
# Without these, the last of the messages is the answer
ANSWERS = (
    "answer", "solution", "Answer", "Solution", "answers", "answerKey", "answer_key", "answer_idx",
    "correct_answer", "correct_option", "correct", "cop", "label", "reward_model.ground_truth",
    "ground_truth", "final_answer", "target", "output", "completion", "response",
)  # fmt: skip
# Columns without which a question cannot be understood: they stand above it
CONTEXTS = ("context", "passage", "article", "paragraph", "story", "premise")
# Column of a question -> the one that continues with it, where it is not empty
GOES_ON = {"instruction": "input"}

LISTS = ("choices", "options", "endings", "candidates", "Choices", "Options")
LETTERS = "ABCDEFGHIJ"
_PREFIXES = (
    "option", "Option", "OPTION", "choice", "Choice", "opt", "Opt", "op", "ending", "sol", "answer"
)  # fmt: skip
_MARKED = re.compile(r"\(?([A-Za-z])(?:\)|[.:])\)?\s*(.*)", re.DOTALL)
_LETTER = re.compile(r"\(?([A-Za-z])[).:]?\)?")
FEWEST_OPTIONS = 2

OBJECT_ANSWER = (
    "its answer is an object: name a part of it as COLUMN.PART with --dataset.answer, or set "
    "--dataset.verifier json"
)
LIST_ANSWER = (
    "its answer is a list of several values: set --dataset.verifier json, if all of them are the "
    "answer"
)
NO_OPTION = "its answer is none of its options"


def _column_sets() -> tuple[tuple[str, ...], ...]:
    """The names of columns that hold one option each, in order."""
    sets = [tuple(LETTERS), tuple(LETTERS.lower())]
    for prefix in _PREFIXES:
        for between in ("", "_", " ", "-", "."):
            for suffixes in (LETTERS, LETTERS.lower(), "123456789", "0123456789"):
                if prefix == "answer" and suffixes[0] in "01":  # several right answers
                    continue
                sets.append(tuple(f"{prefix}{between}{suffix}" for suffix in suffixes))
    return tuple(sets)


COLUMN_SETS = _column_sets()
OPTION_COLUMNS = frozenset([*LISTS, *(name for names in COLUMN_SETS for name in names)])
_SET_OF_FIRST = {names[0]: names for names in COLUMN_SETS}


class Options(NamedTuple):
    """The options of one question."""

    column: str  # or the first and the last of several, for a person
    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()  # as the file names them, if it does

    def shown(self) -> str:
        """The options as lines, each after its letter."""
        pairs = zip(LETTERS, self.texts, strict=False)
        return "\n".join(f"{letter}. {text}" for letter, text in pairs)

    def stand_in(self, prompt: str) -> bool:
        """Whether a prompt shows all of them after their letters."""
        letters = LETTERS[: len(self.texts)]
        return all(re.search(rf"(?m)(?:^|\s)\(?{letter}[.):]", prompt) for letter in letters)


def cell(row: Row, name: str) -> Any:
    """The cell of a column; `a.b` is what the object in the column `a` has under `b`, for each
    object where it is a list of them. None where the row has no such cell.
    """
    if name in row or "." not in name:
        return row.get(name)
    head, _, rest = name.partition(".")
    inside = row.get(head)
    if isinstance(inside, Mapping):
        return cell(inside, rest)
    if isinstance(inside, list) and all(isinstance(part, Mapping) for part in inside):
        return [cell(part, rest) for part in inside] or None
    return None


def has(row: Row, name: str) -> bool:
    """Whether the row has a column of this name, or the first part of it."""
    return name in row or name.partition(".")[0] in row


def with_heads(names: Iterable[str]) -> frozenset[str]:
    """The names, and for each `a.b` the column `a` that it stands in."""
    listed = list(names)
    return frozenset([*listed, *(name.partition(".")[0] for name in listed)])


def _only(places: Sequence[int]) -> int:
    """The place, if there is just one; else -1."""
    return places[0] if len(places) == 1 else -1


def options_of(row: Row) -> Options | None:
    """The options of a row; None where it has none that are known."""
    for column in LISTS:
        if (value := row.get(column)) and (found := _in_one_cell(column, value)):
            return found
    for first in row:
        if names := _SET_OF_FIRST.get(first):
            texts = _in_columns(row, names)
            if len(texts) >= FEWEST_OPTIONS:
                last = names[len(texts) - 1]
                labels = tuple(name[-1] for name in names[: len(texts)])
                return Options(f"{first} to {last}", texts, labels)
    return None


def _in_columns(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    texts = list[str]()
    for name in names:
        text = scalar_text(row.get(name))
        if not text.strip():
            break
        texts.append(text.strip())
    return tuple(texts)


def _in_one_cell(column: str, value: Any) -> Options | None:
    if isinstance(value, str):  # JSON in a CSV cell
        try:
            value = parse_json(value.encode())
        except ValueError:
            return None
    texts: Any = value
    labels: Any = ()
    if isinstance(value, Mapping):
        lists = [value.get(name) for name in ("text", "texts", "choices")]
        texts = next((part for part in lists if isinstance(part, list)), None)
        labels = value.get("label") or value.get("labels") or ()
        if texts is None:
            texts, labels = list(value.values()), list(value)
    elif isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
        texts = [_first_of(part, ("text", "content", "value", "option")) for part in value]
        labels = [_first_of(part, ("label", "key", "id", "letter")) for part in value]
    if not isinstance(texts, list) or not FEWEST_OPTIONS <= len(texts) <= len(LETTERS):
        return None
    shown = [scalar_text(text).strip() for text in texts]
    if not all(shown):
        return None
    names = tuple(map(scalar_text, labels)) if len(labels) == len(shown) else ()
    return Options(column, _without_marks(shown), names)


def _first_of(part: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((part[name] for name in names if name in part), None)


def _without_marks(texts: Sequence[str]) -> tuple[str, ...]:
    """The texts without letters of their own, as AQuA has them: A)21, B)21.5."""
    found = [_MARKED.fullmatch(text) for text in texts]
    marks = "".join(match[1].upper() for match in found if match)
    if marks == LETTERS[: len(texts)]:
        return tuple(match[2] for match in found if match)
    return tuple(texts)


class Ways:
    """The ways in which a file can say which option is right, and how many rows each explains."""

    NAMES = ("its label", "its letter", "its text", "its position from 0", "its position from 1")

    def __init__(self) -> None:
        self._explained: Counter[str] = Counter()

    def see(self, answer: Any, options: Options) -> None:
        """Counts a row for each way that explains its answer."""
        self._explained.update(list(self._places(answer, options)))

    @property
    def best(self) -> str:
        """The way that explains most rows; of several the first of `NAMES`."""
        return max(self.NAMES, key=lambda name: self._explained[name])

    def letter(self, answer: Any, options: Options) -> str | None:
        """The letter of the right option by the best way; None where it has none."""
        place = self._places(answer, options).get(self.best)
        return None if place is None else LETTERS[place]

    def _places(self, answer: Any, options: Options) -> dict[str, int]:
        """The place of the right option by each way that has one."""
        if isinstance(answer, list) and len(answer) == 1:
            answer = answer[0]
        if isinstance(answer, bool) or not isinstance(answer, str | int | float):
            return {}
        text, count = scalar_text(answer).strip(), len(options.texts)
        is_number = text.isascii() and text.isdigit() and len(text) <= 2
        number = int(text) if is_number else -1
        lone_letter = _LETTER.fullmatch(text)
        marked = _MARKED.fullmatch(text)
        letter = LETTERS.find(lone_letter[1].upper()) if lone_letter else -1
        if marked and marked[2] and letter < 0:
            place = LETTERS.find(marked[1].upper())
            same = 0 <= place < count and _same(marked[2], options.texts[place])
            letter = place if same else -1
        texts = [k for k, option in enumerate(options.texts) if _same(option, text)]
        labels = [k for k, label in enumerate(options.labels) if label.strip() == text]
        places = {
            "its label": _only(labels),
            "its letter": letter,
            "its text": _only(texts),
            "its position from 0": number,
            "its position from 1": number - 1,
        }
        return {name: place for name, place in places.items() if 0 <= place < count}


def _same(one: str, other: str) -> bool:
    return one.casefold().split() == other.casefold().split()


def scalar_text(value: Any) -> str:
    """A cell that holds one value as text: 39.0 is 39, as columns with a gap turn integers into
    floats; "" for None.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    as_json = isinstance(value, bool | int | float | list | dict)
    return json.dumps(value) if as_json else str(value)


def plain(value: Any) -> Any:
    """A cell as JSON can hold it: dates and decimals of typed columns as people write them. A
    missing number is None.
    """
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Decimal) and value.is_finite():
        return format(value, "f")
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return value


def meant(answer: Any) -> Any:
    """What an answer that is an object or a list means to a verifier that compares text: one value,
    or `{ANY_OF: texts}`; None for an empty one. ValueError, with the reason, where it is not known.
    """
    if isinstance(answer, Mapping):
        return _of_object(answer)
    if not isinstance(answer, list | tuple):
        return answer
    if answer and all(map(_has_text, answer)):
        answer = [part["text"] for part in answer]
    values = [part for part in answer if part not in (None, "")]
    if len(values) < 2:
        return meant(values[0]) if values else None
    if not all(isinstance(part, str) for part in values):
        raise ValueError(LIST_ANSWER)
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else {ANY_OF: distinct}


def _has_text(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)


def _of_object(answer: Mapping[str, Any]) -> Any:
    if "value" in answer and isinstance(answer.get("aliases"), list):  # TriviaQA
        return meant([answer["value"], *answer["aliases"]])
    for name in ("ground_truth", "target", "text", "value", "answer"):
        known = {name, "answer_start", "style", "type"}
        if name in answer and set(answer) <= known:
            return meant(answer[name])
    raise ValueError(OBJECT_ANSWER)
