"""Scorers of data sets whose answer is a grid of numbers, or gives numbers to names. Rewards of
right answers are the library's.
"""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

from swarm_node.environments.reasoning_gym.scorers.reading import (
    Unreadable,
    bare,
    bounded,
    bounded_json,
    digit_rows,
    rational_rows,
)
from swarm_node.environments.reasoning_gym.scorers.spellings import near

Entry = Mapping[str, Any]
Row = Sequence[Any]


def _digits(line: str) -> list[int]:
    return [int(sign) for sign in line if sign in "123456789"]


def number_puzzle(answer: str, entry: Entry) -> float:
    """1.0 for the key's grid, 0.9 of the share of right cells for another; less for more characters
    than the key.
    """
    key, solution = entry["answer"], entry["metadata"]["solution"]
    if _without_ends(bounded(answer)) == _without_ends(key):
        reward = 1.0
    else:
        rows = map(_digits, answer.split("\n"))
        filled = [row for row in rows if len(row) == len(solution[0])]
        reward = 0.9 * _right_cells(filled, solution) / len(solution[0]) ** 2
    return reward * min(1.0, len(key) / max(1, len(answer)))


def game_of_life(answer: str, entry: Entry) -> float:
    """1.0 for the grid in JSON, the share of right cells for another of its shape. The library
    takes larger grids.
    """
    given, key = bounded_json(answer), bounded_json(entry["answer"])
    if "-" in answer or not isinstance(given, list) or len(given) != len(key):
        return 0.0
    for row, right in zip(given, key, strict=True):
        if not isinstance(row, list) or len(row) != len(right):
            return 0.0
    # 0e9, 0.000 and false are 0
    if any(type(cell) is not int or cell not in (0, 1) for cell in chain(*given)):
        return 0.0
    return 1.0 if given == key else _right_cells(given, key) / sum(map(len, key))


def kakurasu(answer: str, entry: Entry) -> float:
    """1.0 for any grid of zeros and ones with these sums."""
    facts, grid = entry["metadata"], digit_rows(bare(answer))
    if len(grid) != facts["n_rows"]:
        return 0.0
    for row in grid:
        if len(row) != facts["n_cols"] or not {*row} <= {0, 1}:
            return 0.0
    rows = [_weight(row) for row in grid]
    columns = [_weight(column) for column in zip(*grid, strict=True)]
    return float(rows == list(facts["row_sums"]) and columns == list(facts["col_sums"]))


def pool_matrix(answer: str, entry: Entry) -> float:
    """1.0 if each number is within a hundredth of the key's, 0.1 for other numbers in the same
    shape.
    """
    given, key = rational_rows(answer), rational_rows(entry["answer"])
    if list(map(len, given)) != list(map(len, key)):
        return 0.0
    for cell, right in zip(chain(*given), chain(*key), strict=True):
        allowed = Fraction(1, 10**8) + abs(cell) / 100
        if abs(cell - right) > allowed:
            return 0.1
    return near(answer, entry["answer"], given == key)


def same_matrix(answer: str, entry: Entry) -> float:
    """1.0 for the matrix with any white space between its cells, in part for a longer text that
    contains it.
    """
    key, given = entry["answer"].strip(), answer.strip()
    if given == key:
        return 1.0
    rows = bounded(given).split("\n")
    if "\n".join(" ".join(row.split()) for row in rows) == key:
        return 1.0
    return len(key) / len(given) if key in given else 0.0


def n_queens(answer: str, entry: Entry) -> float:
    """1.0 for any board that solves the puzzle."""
    return float(answer in entry["metadata"]["valid_answers"])


def graph_color(answer: str, entry: Entry) -> float:
    """1.0 for a JSON map from the vertices to colours in which neighbours differ."""
    puzzle, given = entry["metadata"]["puzzle"], bounded_json(answer)
    colours = {vertex: given.get(str(vertex)) for vertex in puzzle["vertices"]}
    if {*map(str, colours)} != {*given}:
        return 0.0
    if any(type(colour) is not int for colour in colours.values()):
        return 0.0
    if not {*colours.values()} <= {*puzzle["color_options"]}:
        return 0.0
    return float(all(colours[one] != colours[other] for one, other in puzzle["edges"]))


def cryptarithm(answer: str, entry: Entry) -> float:
    """1.0 for any A=1,B=2 that makes the sum right, with a digit for each letter and no other
    letter.
    """
    facts, digits = entry["metadata"], dict[str, str]()
    for pair in bounded(answer).split(","):
        letter, digit = (part.strip() for part in pair.split("="))
        if letter in digits or not re.fullmatch(r"\d", digit):
            raise Unreadable("a letter twice, or no digit")
        digits[letter] = str(int(digit))
    words = [*facts["words_letters"], facts["result_letters"]]
    has_repeats = len({*digits.values()}) < len(digits)
    if has_repeats or {*digits} != {*"".join(words)}:
        return 0.01
    numbers = [word.translate(str.maketrans(digits)) for word in words]
    if not facts["allow_leading_zero"] and any(number[0] == "0" for number in numbers):
        return 0.01
    *summands, result = map(int, numbers)
    return 1.0 if sum(summands) == result else 0.01


def _without_ends(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n")]


def _right_cells(rows: Sequence[Row], solution: Sequence[Row]) -> int:
    count = 0
    for row, right in zip(rows, solution, strict=False):
        count += sum(cell == of_key for cell, of_key in zip(row, right, strict=False))
    return count


def _weight(cells: Sequence[int]) -> int:
    return sum(place for place, cell in enumerate(cells, 1) if cell)
