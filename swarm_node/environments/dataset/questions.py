"""From rows to questions: prompts by a template, no duplicates, a split by hash, and the version
that names them all.

Whatever the format of the file and the order of its rows, the same questions have the same version.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_uppercase
from typing import Any, TypeGuard

from swarm_node.common.batched import paired
from swarm_node.common.errors import UserError, printable
from swarm_node.common.nearest import meant
from swarm_node.environments.dataset import shapes
from swarm_node.environments.dataset.bounds import Row
from swarm_node.environments.dataset.shapes import (
    ANSWERS,
    CONTEXTS,
    GOES_ON,
    PROMPTS,
    Options,
    Ways,
)
from swarm_node.environments.dataset.verifiers import NUMBERS
from swarm_node.environments.scored import FORMS
from swarm_node.environments.split import (
    HELD_OUT,
    LONG_PROMPT,
    MAX_CHARS,
    MAX_PROMPT_CHARS,
    TRAIN,
    share,
)
from swarm_node.scoring.bound import RULES

MAX_ANSWER_CHARS = 16 * 1024
MAX_ANSWER_DEPTH = 32  # of nested lists and objects: they are read again deeper in Python's stack
MAX_COLUMNS = 64  # names kept for an error message
SHOWN_LINES = 5  # line numbers kept of the rows left out for one reason
BRACES = re.compile(r"\{(\w+(?:\.\w+)*)\}")  # of a template
SHARED_WORDS = 8  # words in a run; a run in two questions says that one was made from the other
# Verifiers that compare text, to which an answer is one value
OF_TEXT = ("auto", "exact", "number", "choice", "regex", "math")
OF_LETTERS = ("auto", "choice")
# Form of an answer -> its name in messages
MARKS = {"hashes": "after ####", "boxed": "in \\boxed{}"}

LONG_ANSWER = "answer above 16 KB"
NEVER = "can never be correct"  # by its own verifier
NO_PROMPT, NO_ANSWER, NO_TEXT = "no prompt", "no answer", "no Unicode text"


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One question with its reference answer."""

    prompt: str
    answer: Any  # as JSON can hold it
    line: int = field(default=0, compare=False)  # of the file
    options: Options | None = field(default=None, compare=False)

    @property
    def digest(self) -> str:
        return _digest([self.prompt, self.answer])


@dataclass
class Questions:
    """The questions of a file, and counts of the rows that were skipped."""

    kept: list[QuestionRow] = field(default_factory=list)  # in the order of their digests
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> rows
    # Reason -> lines of the first such rows
    lines: dict[str, list[int]] = field(default_factory=dict)
    duplicates: int = 0
    prompt: str = ""  # column
    answer: str = ""  # column; "" where the last of the messages is the answer
    columns: set[str] = field(default_factory=set)  # the first of the file's
    context: str = ""  # column that stands above the question
    options: str = ""  # column of the options, as a person reads it
    way: str = ""  # how the file says the right option, where its letter is the answer
    lettered: int = 0  # questions whose answer is a letter
    hidden: int = 0  # questions whose options no prompt shows
    form: str = ""  # of the answers, as the verifier `auto` found it: a key of `MARKS`, or ""

    def leave_out(self, reason: str, line: int) -> None:
        """Counts a row as left out for this reason."""
        self.left_out[reason] += 1
        if len(known := self.lines.setdefault(reason, [])) < SHOWN_LINES:
            known.append(line)

    def split(self, held_out: float) -> dict[str, list[QuestionRow]]:
        """Training and held-out questions. Questions with the same prompt are on one side, whatever
        their answers.
        """
        sides: dict[str, list[QuestionRow]] = {TRAIN: [], HELD_OUT: []}
        for question in self.kept:
            sides[HELD_OUT if share(question.prompt) < held_out else TRAIN].append(question)
        return sides


def gather(
    rows: Iterable[tuple[int, Row | str]],
    prompt: str,
    answer: str,
    template: str,
    verifier: str = "auto",
) -> Questions:
    """The questions of these rows. An empty `prompt` or `answer` stands for the first known column
    name that the rows have. Raises UserError where no row makes a question, or where prompts or
    answers exceed MAX_CHARS.
    """
    questions = Questions(prompt=prompt, answer=answer)
    maker = Maker(questions, prompt, answer, template, verifier)
    drafts: dict[tuple[str, Options | None], QuestionRow] = {}
    chars, columns = Counter[str](), questions.columns
    for line, row in rows:
        if not isinstance(row, str):
            maker.look(row, columns)
        draft = row if isinstance(row, str) else maker.draft(row)
        if isinstance(draft, str):
            questions.leave_out(draft, line)
        elif (key := (draft.digest, draft.options)) in drafts:
            questions.duplicates += 1
        else:
            drafts[key] = replace(draft, line=line)
            texts = draft.options.texts if draft.options else ()
            chars["prompts"] += len(draft.prompt) + sum(map(len, texts))
            chars["answers"] += len(json.dumps(draft.answer))
            if max(chars.values()) > MAX_CHARS:
                raise UserError(f"more than {MAX_CHARS >> 20} MB of questions: use a part of them")
    found = maker.settled(list(drafts.values()))
    if not found:
        reasons = ", ".join(
            f"{count} rows: {reason}" for reason, count in questions.left_out.items()
        )
        first_columns = sorted(columns)[:12]
        shown = ", ".join(printable(name, 40) for name in first_columns) or "none"
        advice = _advice(questions, sorted(columns)) if columns else ""
        raise UserError(
            f"no question in it: {reasons or 'no rows'}; its columns are {shown}{advice}"
        )
    questions.kept = [found[digest] for digest in sorted(found)]
    return questions


class Maker:
    """Makes questions of rows: drafts first, and questions when all rows are known, since only all
    of them say how a file names the right option.
    """

    def __init__(
        self, questions: Questions, prompt: str, answer: str, template: str, verifier: str
    ) -> None:
        self._questions, self._template, self._verifier = questions, template, verifier
        self._named = prompt, answer
        self._ways = Ways()

    def look(self, row: Row, columns: set[str]) -> None:
        """Takes note of the columns of a row."""
        if len(columns) >= MAX_COLUMNS:
            return
        columns.update(list(row)[:MAX_COLUMNS])
        known = self._questions
        if not known.prompt or not known.answer:
            known.prompt, known.answer = recognised(columns, *self._named)
        if not known.context and not self._named[0] and not self._template:
            known.context = next((name for name in CONTEXTS if name in columns), "")

    def draft(self, row: Row) -> QuestionRow | str:
        """The question of a row as the row has it, or why there is none."""
        known = self._questions
        asked: Any = shapes.cell(row, known.prompt)
        right = shapes.plain(shapes.cell(row, known.answer) if known.answer else None)
        if not known.answer and _is_chat(asked) and asked[-1].get("role") == "assistant":
            asked, right = asked[:-1], asked[-1]["content"]
        text = filled(self._template, row) if self._template else self._text(row, asked)
        if not text or not text.strip():
            return NO_PROMPT
        options = shapes.options_of(row)
        if self._verifier in OF_TEXT:
            try:
                right = shapes.meant(right)
            except ValueError as error:
                return str(error)
        if right is None or (isinstance(right, str) and not right.strip()):
            return NO_ANSWER
        if options:
            self._ways.see(right, options)
        draft = QuestionRow(text, right, options=options)
        reason = unfit(draft)
        return reason or draft

    def settled(self, drafts: list[QuestionRow]) -> dict[str, QuestionRow]:
        """The questions by their digests, in their final form."""
        known = self._questions
        with_options = explained = 0  # drafts
        for draft in drafts:
            if draft.options:
                with_options += 1
                explained += self._ways.letter(draft.answer, draft.options) is not None
        lettering = 2 * explained > with_options
        whole = _all_whole(drafts)
        found: dict[str, QuestionRow] = {}
        for draft in drafts:
            made: QuestionRow | str = draft
            if draft.options and lettering:
                made = self._lettered(draft, draft.options)
            elif whole and isinstance(draft.answer, float):
                made = replace(draft, answer=int(draft.answer))
            if isinstance(made, str):
                known.leave_out(made, draft.line)
            elif made.digest in found:
                known.duplicates += 1
            else:
                found[made.digest] = made
        return found

    def _lettered(self, draft: QuestionRow, options: Options) -> QuestionRow | str:
        """The question with its options below it, and a letter for its answer."""
        known = self._questions
        known.options, known.way = options.column, self._ways.best
        text = draft.prompt
        if not options.stand_in(text):
            if self._template or self._verifier not in OF_LETTERS:
                known.hidden += not all(option in text for option in options.texts)
                return draft
            text = f"{text}\n{options.shown()}"
        if self._verifier not in OF_LETTERS:
            return draft
        letter = self._ways.letter(draft.answer, options)
        if letter is None:
            return shapes.NO_OPTION
        known.lettered += 1
        made = replace(draft, prompt=text, answer=letter)
        return unfit(made) or made

    def _text(self, row: Row, asked: Any) -> str:
        """The text of the column of the question, between what stands above and below it."""
        known = self._questions
        above = shapes.cell(row, known.context) if known.context != known.prompt else None
        goes_on = GOES_ON.get(known.prompt, "")
        below = row.get(goes_on) if not self._named[0] else None
        text = text_of(asked)
        parts = [text_of(above), text, text_of(below)] if text.strip() else []
        return "\n\n".join(part for part in parts if part.strip())


def unfit(question: QuestionRow) -> str:
    """Why this is not a question; "" where it is one."""
    if len(question.prompt) > MAX_PROMPT_CHARS:
        return LONG_PROMPT
    if _deep(question.answer, MAX_ANSWER_DEPTH) or not _writable(question):
        return NO_TEXT
    return LONG_ANSWER if len(json.dumps(question.answer)) > MAX_ANSWER_CHARS else ""


def _all_whole(drafts: Sequence[QuestionRow]) -> bool:
    """Whether all answers that are floats are integers, as a column of integers with a gap is."""
    floats = [draft.answer for draft in drafts if isinstance(draft.answer, float)]
    return all(number.is_integer() for number in floats)


def _advice(asked: Questions, columns: Sequence[str]) -> str:
    """Advice for an error message: the flags that name the columns."""
    options = {"prompt": (asked.prompt,) * bool(asked.prompt) or PROMPTS}
    options["answer"] = (asked.answer,) * bool(asked.answer) or ANSWERS
    nearest = dict[str, str]()  # column by missing option; "" where none is near
    for option, names in options.items():
        if set(names).isdisjoint(columns):
            near = (meant(name, columns) for name in names)
            nearest[option] = next(filter(None, near), "")
    flags = " ".join(
        f"--dataset.{option} {printable(name, 40) or 'COLUMN'}" for option, name in nearest.items()
    )
    if any(nearest.values()):
        return f"; did you mean {flags}?"
    return f"; name those to use: {flags}" if flags else ""


def columns(prompt: str, answer: str, template: str) -> frozenset[str]:
    """The columns that questions may be made of."""
    if template:
        of_prompt = BRACES.findall(template)
    elif prompt:
        of_prompt = [prompt]
    else:
        of_prompt = [*PROMPTS, *CONTEXTS, *GOES_ON.values()]
    of_answer = [answer] if answer else ANSWERS
    return shapes.with_heads([*of_prompt, *of_answer]) | shapes.OPTION_COLUMNS


def filled(template: str, row: Row) -> str:
    """The template with cells of the row in it; "" where one of them is None, or none is named.
    Other braces stay.
    """
    names = [name for name in BRACES.findall(template) if shapes.has(row, name)]
    if not names or any(shapes.cell(row, name) is None for name in names):
        return ""

    def part(brace: re.Match[str]) -> str:
        name = brace[1]
        return text_of(shapes.cell(row, name)) if shapes.has(row, name) else brace[0]

    return BRACES.sub(part, template)


def text_of(value: Any) -> str:
    """A cell as text: text as it is, messages one below the other, a list of choices with
    letters.
    """
    value = shapes.plain(value)
    if value is None or isinstance(value, str | float):
        return shapes.scalar_text(value)
    if _is_chat(value):
        return _chat(value)
    if isinstance(value, Mapping) and (options := shapes.options_of({"options": value})):
        return options.shown()
    if _is_choices(value):
        lettered = zip(ascii_uppercase, value, strict=False)
        return "\n".join(f"{letter}. {text}" for letter, text in lettered)
    return _json_text(value)


def _is_choices(value: Any) -> TypeGuard[Sequence[str]]:
    return isinstance(value, list | tuple) and len(value) > 0 and all(map(_is_text, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""
    except (TypeError, ValueError):
        return str(value)


def _deep(value: Any, left: int) -> bool:
    """Whether lists and objects are nested more than `left` deep."""
    if left < 0:
        return True
    if isinstance(value, Mapping):
        return any(_deep(part, left - 1) for part in value.values())
    if isinstance(value, list | tuple):
        return any(_deep(part, left - 1) for part in value)
    return False


def _writable(question: QuestionRow) -> bool:
    """Whether JSON and UTF-8 can hold it: not a date of Parquet, nor half of a surrogate pair."""
    try:
        return bool(question.digest)
    except (TypeError, ValueError):
        return False


def _is_chat(value: Any) -> bool:
    turns = value if isinstance(value, list | tuple) else ()
    return len(turns) > 0 and all(map(_is_turn, turns))


def _is_turn(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("content"), str)


def _chat(messages: Sequence[Mapping[str, Any]]) -> str:
    """Messages as one user turn: with roles, unless they are one user message, or a system and a
    user message.
    """
    roles = [str(message.get("role", "user")) for message in messages]
    texts = [message["content"] for message in messages]
    if roles in (["user"], ["system", "user"]):
        return "\n\n".join(texts)
    return "\n\n".join(f"{role.capitalize()}: {text}" for role, text in paired(roles, texts))


def version(
    questions: Questions, held_out: float, verifier: Mapping[str, Any], salt: str = ""
) -> str:
    """The version of the questions, their split and their verifier, in characters that an address
    allows.
    """
    digests = "".join(question.digest for question in questions.kept)
    rows = hashlib.sha256(digests.encode()).hexdigest()
    # Left out where empty: versions without a salt stay as they were
    beside: dict[str, Any] = {"salt": salt} if salt else {}
    # Peers who pay for other completions have another version
    beside |= {"rules": RULES} if verifier else {}
    agreed = {"rows": rows, "held_out": held_out, "verifier": verifier, **beside}
    return f"sha256.{_digest(agreed)[:32]}"


def leaking(sides: Mapping[str, Sequence[QuestionRow]]) -> int:
    """How many held-out questions have at least half of their runs of words in training questions,
    too.
    """
    # Mostly the smaller side: all of it is in memory
    held_out = [_runs(question.prompt) for question in sides[HELD_OUT]]
    in_held_out = {run for runs in held_out for run in runs}
    trained = set[int]()  # of the runs above
    for question in sides[TRAIN]:
        trained.update(run for run in _runs(question.prompt) if run in in_held_out)
    count = 0
    for runs in held_out:
        shared = sum(run in trained for run in runs)
        count += bool(runs) and 2 * shared >= len(runs)
    return count


def _runs(text: str) -> list[int]:
    words = re.findall(r"\w+", text.casefold())
    starts = range(max(1, len(words) - SHARED_WORDS + 1))
    return [hash(tuple(words[start : start + SHARED_WORDS])) for start in starts]


def _digest(value: Any) -> str:
    text = json.dumps(
        value, ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":")
    )
    return hashlib.sha256(text.encode()).hexdigest()


def recognised(names: Collection[str], prompt: str, answer: str) -> tuple[str, str]:
    """The columns of question and answer: a given name as it is, else the first known one; "" where
    there is none.
    """
    known = set(names)
    asked = prompt or next((name for name in PROMPTS if name in known), "")
    heads = {name: name.partition(".")[0] for name in ANSWERS}
    rights = [name for name in ANSWERS if heads[name] in known and name != asked]
    return asked, answer or next(iter(rights), "")


def form_of(answers: Sequence[Any]) -> str:
    """How most of the answers mark the final one, as GSM8K and MATH do; "" where they do not."""
    for form in MARKS:
        marked = sum(bool(final(form, answer)) for answer in answers)
        if 2 * marked > len(answers):
            return form
    return ""


def final(form: str, answer: Any) -> str:
    """The answer at the mark of a solution; "" where there is none."""
    return FORMS[form].read(answer).strip() if isinstance(answer, str) else ""


def verifier_of(form: str, answers: Sequence[Any]) -> str:
    """The verifier for answers of this form. The rows alone decide, so that all who have them
    choose the same.
    """
    if not form:
        return "exact"
    finals = [final(form, answer).strip("$%. ") for answer in answers]
    if all(map(NUMBERS.fullmatch, finals)):
        return "number"
    return "math" if form == "boxed" else "exact"
