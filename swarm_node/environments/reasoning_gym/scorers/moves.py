"""Scorers of data sets whose answer is a way to a goal: moves are made one by one, and there are so many at most.

Any way that leads there is right, as with the library, if every move of it can be made and none leads back to where the
way has been: moves that do nothing could say anything.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from swarm_node.environments.reasoning_gym.scorers.reading import Unreadable, bounded

Entry = Mapping[str, Any]
State = TypeVar("State")
Move = TypeVar("Move")

DIRECTIONS = {"right": (0, 1), "down": (1, 0), "left": (0, -1), "up": (-1, 0)}
DISK_MOVE = "Move disk {} from Peg {} to Peg {}"
_DISK_MOVE = re.compile(DISK_MOVE.replace("{}", r"(\d{1,3})"))


def walk(start: State, moves: Iterable[Move], step: Callable[[State, Move], State | None]) -> State:
    """Where the moves lead. `step` gives None for a move that cannot be made. Unreadable for a way that tries one, or
    comes back to where it was."""
    state, been = start, {repr(start)}
    for move in moves:
        after = step(state, move)
        if after is None or repr(after) in been:
            raise Unreadable("a move that cannot be made, or says nothing")
        been.add(repr(after))
        state = after
    return state


def tower_of_hanoi(answer: str, entry: Entry) -> float:
    """1.0 for the fewest moves, their share for more."""
    facts, moves = entry["metadata"], disk_moves(answer)
    whole = list(range(facts["num_disks"], 0, -1))
    start: dict[int, list[int]] = {peg: [] for peg in range(1, facts["num_pegs"] + 1)} | {facts["start_peg"]: whole}

    def move_disk(pegs: dict[int, list[int]], move: list[int]) -> dict[int, list[int]] | None:
        disk, source, target = move
        if pegs[source][-1:] != [disk] or min(pegs[target], default=disk) < disk:
            return None
        after = {**pegs, source: pegs[source][:-1]}
        return {**after, target: [*after[target], disk]}

    if walk(start, moves, move_disk)[facts["target_peg"]] != whole:
        return 0.0
    fewest: int = facts.get("solution_length", len(moves))
    return min(1.0, fewest / len(moves))


def disk_moves(text: str) -> list[list[int]]:
    """[disk, from, to] of each line."""
    found = [_DISK_MOVE.fullmatch(" ".join(line.split())) for line in bounded(text).split("\n") if line.strip()]
    return [[int(number) for number in match.groups()] for match in found if match] if all(found) else []


def shortest_path(answer: str, entry: Entry) -> float:
    """1.0 for a shortest way through open cells, half for a longer one."""
    if answer == entry["answer"].strip():
        return 1.0
    matrix, words = entry["metadata"]["matrix"], bounded(answer).split()
    cells = {(y, x): cell for y, row in enumerate(matrix) for x, cell in enumerate(row)}

    def go(at: tuple[int, int], word: str) -> tuple[int, int] | None:
        (y, x), (dy, dx) = at, DIRECTIONS[word]
        return (y + dy, x + dx) if cells.get((y + dy, x + dx), "X") != "X" else None

    if cells[walk(next(at for at, cell in cells.items() if cell == "*"), words, go)] != "#":
        return 0.0
    return 1.0 if len(words) == len(entry["answer"].split()) else 0.5


def word_ladder(answer: str, entry: Entry) -> float:
    """1.0 for a chain of known words from the first to the last, a letter changed at a time; half for each unknown."""
    facts, chain = entry["metadata"], chained(answer)
    if len(chain) < 2 or (chain[0], chain[-1]) != (facts["start_word"], facts["end_word"]):
        return 0.0
    if any(len(word) != facts["word_length"] or not word.isalpha() or not word.isascii() for word in chain):
        return 0.0
    changed = [sum(a != b for a, b in zip(*pair, strict=True)) for pair in itertools.pairwise(chain)]
    if {*changed} != {1} or len({*chain}) < len(chain):
        return 0.0
    known = set(facts["words"])
    return 0.5 ** min(sum(word not in known for word in chain), 60)


def chained(text: str) -> list[str]:
    """The words between commas, in capitals."""
    return [word.strip() for word in bounded(text).upper().split(",")]
