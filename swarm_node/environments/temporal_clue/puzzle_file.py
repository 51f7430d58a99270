"""The puzzles of a JSON file, [{"prompt": ..., "solution": {"A": ...}}, ...], as a source of
questions for a scoring process (`scoring/contract.py`). No solver is needed.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from swarm_node.common.errors import UserError
from swarm_node.common.files import read_plain
from swarm_node.common.parsing import parse_json
from swarm_node.environments.temporal_clue.sizes import SCORER
from swarm_node.scoring.bound import longest, plain

FILE_NAME = "temporal_clue_file"  # the environment's name in questions
FIRST = re.compile(
    r"[^A-Za-z\n]{0,40}(?:[Aa]nswer:?[ \t]{1,4}[*_(\[]{0,4})?"
    r"([A-Z])[*_ \t]{0,8}[.):][*_ \t]{0,40}(?=\S)"
)
# How a line of answers begins that says nothing else
OPENS = re.compile(
    r"[ \t>*_#(\[•-]{0,16}(?:\d{1,2}[.)] )?(?:[Aa]nswer:?[ \t]{1,4}[*_(\[]{0,4})?"
    r"[A-Z][*_ \t]{0,8}[.):]"
)
NEXT = re.compile(r"(?<=[\s,;|])[*_(\[]{0,4}([A-Z])[*_ \t]{0,8}[.):][*_ \t]{1,40}(?=\S)")
TIME = re.compile(r"\b(\d{1,2})[:.](\d\d)\s*([ap])?\.?\s*(?:m\b)?", re.IGNORECASE)
MAX_BYTES = 1 << 30  # of a file
LINKS = ("the", "in", "at", "it", "was", "or", "and")  # may stand beside the words of options
LONGEST = 200  # characters of an answer line that are read


@dataclass(frozen=True)
class PuzzleItem:
    """One puzzle with its reference answers."""

    prompt: str
    key: dict[str, str]  # letter -> right answer
    options: tuple[str, ...]  # names that an answer may be

    def score(self, text: str) -> float:
        return score(text, self.key, self.options)

    @property
    def longest(self) -> int:
        """The most characters of a paid completion: see `contract.Item`."""
        return longest("\n".join(f"{letter}. {name}" for letter, name in self.key.items()))

    def accounts(self, text: str) -> bool:
        """Whether each line of a text gives nothing but options, and no letter twice."""
        return plain(text, *self.options) and says_options_alone(text, self.key, self.options)


class PuzzleFile:
    """All puzzles of a file. Each seed has an order of its own."""

    def __init__(self, file: str) -> None:
        self.version = version_of(Path(file))
        self._puzzles = read_puzzles(Path(file))

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> PuzzleItem:
        order = list(range(len(self._puzzles)))
        Random(f"{FILE_NAME}/{seed}").shuffle(order)
        return self._puzzles[order[index % len(order)]]


def version_of(file: Path) -> str:
    """A digest of the file, and of which completions are paid."""
    content = _content(file) + f"\0scorer {SCORER}".encode()
    return "sha256." + hashlib.sha256(content).hexdigest()[:32]


def _content(file: Path) -> bytes:
    """The content. Raises OSError where it cannot be read; UserError where it is too large."""
    content = read_plain(file.expanduser(), MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UserError(f"puzzle file {file} is larger than {MAX_BYTES >> 20} MB")
    return content


def read_puzzles(file: Path) -> list[PuzzleItem]:
    """The puzzles of a file. UserError, one line that names the file, where it cannot be used."""
    try:
        entries = parse_json(_content(file))
        puzzles = list(map(_item, entries))
    except FileNotFoundError as error:
        raise UserError(
            f"puzzle file {file} does not exist; a path is relative to this folder"
        ) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"puzzle file {file} is not a JSON list of prompt and solution: {error!r}; make it as "
            "docs/reference/environments.md says"
        ) from error
    if not puzzles or not all(puzzle.key for puzzle in puzzles):
        raise UserError(
            f"puzzle file {file} has no puzzles, or one without a solution; make it as "
            "docs/reference/environments.md says"
        )
    return puzzles


def read_options(prompt: str, solution: Mapping[str, str]) -> tuple[str, ...]:
    """Names that an answer may be: those that the prompt lists, in the wording of the published
    Temporal Clue puzzles (OpenPipe, MIT licence); the right answers if the prompt has another
    wording.
    """
    rooms = re.findall(r"^\d+\. (.*)$", prompt.partition("Please answer")[0], re.MULTILINE)
    suspects, weapons = (
        _bullets(prompt, "identified as suspects:"),
        _bullets(prompt, "found on the premises:"),
    )
    if not (rooms and suspects and weapons):
        return tuple(dict.fromkeys(solution.values()))
    motives = [
        line.partition(" (")[0]
        for line in _bullets(prompt, "possible motives for killing Mr. Boddy:")
    ]
    return (*suspects, *weapons, *rooms, *_bullets(prompt, "following times:"), *motives)


def _bullets(prompt: str, after: str) -> list[str]:
    _, found, rest = prompt.partition(after + "\n\n")
    block = rest.partition("\n\n")[0] if found else ""
    return [line.removeprefix("• ") for line in block.splitlines()]


def score(text: str, key: Mapping[str, str], options: Collection[str]) -> float:
    """Share of `key` (letter -> right answer) that `text` gives. `options`: all names that an
    answer may choose from.

    An answer is a line such as `A. NAME`; the last line with a letter counts. One that is not
    exactly an option counts as the one option it mentions, and as wrong if it mentions several. The
    text may be hostile, so all of this is plain string work in time linear in its length.
    """
    said = {letter: given for line in text.split("\n") for letter, given in _answers(line)}
    known = {_plain(option) for option in options}
    right = 0
    for letter in key.keys() & said.keys():
        right += _meant(said[letter], known) == _plain(key[letter])
    return right / len(key)


def says_options_alone(text: str, key: Mapping[str, str], options: Collection[str]) -> bool:
    """Whether each line of a text holds nothing but letters of the key with words of options, and
    no letter stands twice.
    """
    known, seen = {*LINKS}, list[str]()
    for option in options:
        known |= {*_plain(option).split()}
    for line in filter(str.strip, text.split("\n")):
        given = [*_answers(line)]
        seen += (letter for letter, _ in given)
        names = [name for _, name in given if known.issuperset(_plain(name).split())]
        if not OPENS.match(line) or len(names) < len(given) or not all(map(_is_bare, names)):
            return False
    return len({*seen}) == len(seen) and {*seen} <= {*key}


def _is_bare(name: str) -> bool:
    """Whether a name has hardly a sign beside its words."""
    words = re.findall(r"[^\W_]+", name)
    return len(name) <= sum(map(len, words)) + 2 * len(words) + 4


def _answers(line: str) -> Iterator[tuple[str, str]]:
    """Letters and the text after each: a letter at the start of the line, and those that follow in
    alphabetical order, as in `A. NAME, B. NAME`. A letter that does not come after the one before
    is part of a name.
    """
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


def _item(entry: Any) -> PuzzleItem:
    prompt, solution = entry["prompt"], entry["solution"]
    options = entry.get("options") or read_options(prompt, solution)
    return PuzzleItem(str(prompt), dict(solution), tuple(options))


def _meant(line: str, known: Collection[str]) -> str | None:
    plain = _plain(line)
    if plain in known:
        return plain
    mentioned = [option for option in known if f" {option} " in f" {plain} "]

    def within_another(option: str) -> bool:
        others = (other for other in mentioned if other != option)
        return any(f" {option} " in f" {other} " for other in others)

    longest = [option for option in mentioned if not within_another(option)]
    return longest[0] if len(longest) == 1 else None


def _plain(text: str) -> str:
    """Lower case, words only, times as minutes of the day, so that 12:30 am, 12:30 AM and 00:30 are
    one.
    """
    words = re.findall(r"[^\W_]+", TIME.sub(_minutes, text).lower())
    if len(words) > 1 and words[0] in ("the", "in", "at"):
        words = words[1:]
    return " ".join(words)


def _minutes(match: re.Match[str]) -> str:
    hour, minute, half = int(match[1]), int(match[2]), (match[3] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f" t{hour * 60 + minute} "
