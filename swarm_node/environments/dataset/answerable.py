"""Whether the rows of a file can be answered correctly at all: each reference answer, taken for a
completion, is scored by its own verifier.

What a verifier by name does to an answer is cheap and ours, so it runs here, in the reader's
process. `math` parses, and a function of the user's may do anything, so both run in a scoring
process with its sandboxed children and limits, as they do in a run. Of their rows the first few in
the order of digests are tried, the same ones on all machines.

A row that is wrong by its own answer is skipped, on each machine alike. So nothing that depends
on a machine leaves a row out: no time limit, and no function, which may want completions of quite
another form than the reference answers have. What a function refuses is said.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from swarm_node.common.batched import paired
from swarm_node.common.errors import UserError, printable
from swarm_node.environments.dataset.questions import NEVER, QuestionRow, Questions
from swarm_node.environments.dataset.source import (
    SOURCE,
    FileItem,
    Judge,
    references_of,
)
from swarm_node.environments.dataset.verifiers import NAMED, letter_of, text_of
from swarm_node.environments.split import HELD_OUT, SEED_QUESTIONS
from swarm_node.rollouts.groups import Skipped
from swarm_node.scoring import contract
from swarm_node.scoring.bound import RIGHT_FROM, Bounded
from swarm_node.scoring.client import Reply, ScoringClient, ScoringUnavailable

MOST_PARSED = 1000  # rows of `math` that are tried
MOST_OF_FUNCTION = 32  # rows that a function of the user's is tried on
SECONDS = 10.0  # for one of them
TOGETHER = 4  # of them that are asked at a time, each of which may take so long
SHOWN_LINES = 5


class DoubtfulAnswers(NamedTuple):
    """What a function of the user's says to reference answers."""

    tried: int
    lines: list[int]  # of those that it does not take for right


def try_rows(made: Questions, spec: Mapping[str, Any]) -> DoubtfulAnswers:
    """Leaves out the rows that can never be right. Raises UserError where all are such, or where
    the verifier cannot be loaded, or gives no scores.
    """
    refused = DoubtfulAnswers(0, [])
    if spec["name"] not in NAMED:
        refused = _function_tried(made.kept[:MOST_OF_FUNCTION], spec)
        never = set[str]()
    elif spec["name"] == "math":
        scored = zip(made.kept, _scores(made.kept[:MOST_PARSED], spec), strict=False)
        never = {row.digest for row, reply in scored if _is_wrong(reply)}
    else:
        judge = Judge(spec)
        never = {row.digest for row in made.kept if not _can_be_right(row, spec["name"], judge)}
    wrong = [row for row in made.kept if row.digest in never]
    if wrong and len(wrong) == len(made.kept):
        first = min(wrong, key=lambda row: row.line)
        raise UserError(
            f"none of its {len(wrong)} answers can be correct according to the verifier "
            f"{spec['name']}: "
            f"that of line {first.line} is {printable(text_of(first.answer), 40)}; take another "
            "verifier, or name another column with --dataset.answer"
        )
    for row in sorted(wrong, key=lambda row: row.line):
        made.leave_out(NEVER, row.line)
    made.kept = [row for row in made.kept if row.digest not in never]
    return refused


def contradicting(made: Questions, spec: Mapping[str, Any]) -> list[int]:
    """The lines whose question stands in a line before, with an answer that is another one by this
    verifier.
    """
    compared = {"name": "exact"} if spec["name"] in ("math", "regex") else spec
    compared = compared if compared["name"] in NAMED else {"name": "exact"}
    judge = Judge({**compared, "form": spec.get("form")})
    first: dict[str, QuestionRow] = {}
    lines = list[int]()
    for row in sorted(made.kept, key=lambda row: row.line):
        before = first.setdefault(row.prompt, row)
        if before is not row and not _is_same(row, before, compared["name"], judge):
            lines.append(row.line)
    return lines


def own_text(name: str, reference: Any) -> str:
    """A reference answer as a completion that gives it."""
    letter = letter_of(reference) if name == "choice" else None
    return letter or text_of(reference)


def _is_same(row: QuestionRow, before: QuestionRow, name: str, judge: Judge) -> bool:
    texts = [own_text(name, reference) for reference in judge.references(row.answer)]
    item = FileItem(before.prompt, before.answer, judge)
    return any(item.score(text) >= RIGHT_FROM for text in texts)


def _can_be_right(row: QuestionRow, name: str, judge: Judge) -> bool:
    """Whether the row's own answer is right; of a pattern, whether it is one."""
    try:
        if name == "regex":
            for pattern in judge.references(row.answer):
                re.compile(text_of(pattern))
            return True
        item = Bounded(FileItem(row.prompt, row.answer, judge))
        texts = [own_text(name, reference) for reference in judge.references(row.answer)]
        return any(item.score(text) >= RIGHT_FROM for text in texts)
    except (re.error, ValueError, ArithmeticError, RecursionError, OverflowError):
        return False


def _function_tried(rows: Sequence[QuestionRow], spec: Mapping[str, Any]) -> DoubtfulAnswers:
    replies = _scores(rows, spec)
    scores = [reply for reply in replies if isinstance(reply, tuple)]
    if rows and not scores:
        (reason, *_) = {reply.reason: 0 for reply in replies if isinstance(reply, Skipped)}
        raise UserError(
            f"verifier {spec['place']} gives none of {len(rows)} reference answers a score "
            f"({_in_words(reason)}): it is called as score(completion, answer), and returns a "
            "number from 0 to 1"
        )
    wrong = [row.line for row, reply in paired(rows, replies) if _is_wrong(reply)]
    # Where it pays no reference answer at all, it wants something else than these
    pays_some = len(wrong) < len(scores)
    return DoubtfulAnswers(len(rows), sorted(wrong) if pays_some else [])


def _in_words(reason: str) -> str:
    words = {
        contract.SCORER_RAISED: "it raises",
        contract.NOT_A_SCORE: "it returns something else",
        contract.TIMEOUT: f"it takes more than {SECONDS:.0f} s",
    }
    return words.get(reason, reason)


def _is_wrong(reply: Reply) -> bool:
    """Whether it has a score, which is not a full one: a skip says nothing of the answer."""
    return isinstance(reply, tuple) and isinstance(reply[0], float) and reply[0] < RIGHT_FROM


def _scores(rows: Sequence[QuestionRow], spec: Mapping[str, Any]) -> list[Reply]:
    """What a scoring process says to the reference answers of these rows."""
    with TemporaryDirectory(prefix="swarm-node-tried-") as folder:
        file = Path(folder, "questions.json")
        pairs = [(row.prompt, row.answer) for row in rows]
        written = {"version": "tried", "verifier": spec, "rows": {HELD_OUT: pairs}}
        file.write_text(json.dumps(written), encoding="ascii")
        texts = [text_of(references_of(spec, row.answer)[0]) for row in rows]
        asked = [
            ("dataset", HELD_OUT, *divmod(k, SEED_QUESTIONS), (text,))
            for k, text in enumerate(texts)
        ]
        with ScoringClient(f"{SOURCE}?{file}", "tried", SECONDS) as client:
            try:
                return list(_in_turn(client, asked))
            except ScoringUnavailable as error:
                reason = str(error).removeprefix("the scoring process does not start: ")
                raise UserError(
                    f"verifier {spec.get('place', spec['name'])} cannot be used: {reason}"
                ) from error


def _in_turn(client: ScoringClient, asked: Sequence[Any]) -> Iterator[Reply]:
    """The replies: first to one row, then to a few at a time. After the first that took too long,
    none is asked: a verifier that hangs would take minutes.
    """
    slow = False
    begins = [0, *range(1, len(asked), TOGETHER)]
    for begin, end in pairwise([*begins, len(asked)]):
        part = asked[begin:end]
        replies = [Skipped(contract.TIMEOUT)] * len(part) if slow else client.ask(part)
        slow = slow or Skipped(contract.TIMEOUT) in replies
        yield from replies
