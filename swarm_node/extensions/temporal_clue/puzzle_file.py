"""The puzzles of a JSON file, [{"prompt": ..., "solution": {"A": ...}}, ...], as a source of questions for a scoring
process (`scoring/contract.py`). No solver is needed."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from swarm_node.common.errors import UserError
from swarm_node.extensions.temporal_clue import scoring

FILE_NAME = "temporal_clue_file"  # of the environment in questions


@dataclass(frozen=True)
class PuzzleItem:
    """One puzzle with its reference answers."""

    prompt: str
    key: dict[str, str]  # letter -> right answer
    options: tuple[str, ...]  # names that an answer may be

    def score(self, text: str) -> float:
        return scoring.score(text, self.key, self.options)


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
    """A digest of the file."""
    return "sha256." + hashlib.sha256(file.expanduser().read_bytes()).hexdigest()[:32]


def read_puzzles(file: Path) -> list[PuzzleItem]:
    """Raises UserError: one line that names the file."""
    try:
        entries = json.loads(file.expanduser().read_text("utf-8"))
        puzzles = [
            PuzzleItem(
                str(entry["prompt"]),
                dict(entry["solution"]),
                tuple(entry.get("options") or read_options(entry["prompt"], entry["solution"])),
            )
            for entry in entries
        ]
    except FileNotFoundError as error:
        raise UserError(f"puzzle file {file} does not exist") from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"puzzle file {file} is not a JSON list of prompt and solution: {error!r}") from error
    if not puzzles or not all(puzzle.key for puzzle in puzzles):
        raise UserError(f"puzzle file {file} has no puzzles, or one without a solution")
    return puzzles


def read_options(prompt: str, solution: Mapping[str, str]) -> tuple[str, ...]:
    """Names that an answer may be: those that the prompt lists, in the wording of the published Temporal Clue puzzles
    (OpenPipe, MIT licence); the right ones if it has another."""
    rooms = re.findall(r"^\d+\. (.*)$", prompt.partition("Please answer")[0], re.MULTILINE)
    suspects, weapons = _bullets(prompt, "identified as suspects:"), _bullets(prompt, "found on the premises:")
    if not (rooms and suspects and weapons):
        return tuple(dict.fromkeys(solution.values()))
    motives = [line.partition(" (")[0] for line in _bullets(prompt, "possible motives for killing Mr. Boddy:")]
    return (*suspects, *weapons, *rooms, *_bullets(prompt, "following times:"), *motives)


def _bullets(prompt: str, after: str) -> list[str]:
    _, found, rest = prompt.partition(after + "\n\n")
    block = rest.partition("\n\n")[0] if found else ""
    return [line.removeprefix("• ") for line in block.splitlines()]
