"""Scorers of data sets whose answer is a way to a goal: moves are made one by one, and there are so many at most.

Any way that leads there is right, as with the library, if every move of it can be made and none leads back to where the
way has been: moves that do nothing could say anything. Only a way no longer than the data set's own may be less tidy,
since some of these are. Each `..._written` writes an answer that could be read as plainly as it can be written.
"""

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

from swarm_node.environments.reasoning_gym.scorers import cube, logic
from swarm_node.environments.reasoning_gym.scorers.logic import Assignments
from swarm_node.environments.reasoning_gym.scorers.reading import (
    MAX_ITEMS,
    Unreadable,
    Visited,
    bare,
    bounded,
    bounded_json,
    words,
)

Entry = Mapping[str, Any]

DIRECTIONS = {"right": (0, 1), "down": (1, 0), "left": (0, -1), "up": (-1, 0)}
MAX_SAID = 12  # signs of a conclusion, beside three for each of the premises'
MAX_BITS = 512  # of the number on a quantum lock
_CAR_MOVES = re.compile(r"[A-Z][+-]\d(?:[\s,]{0,2}[A-Z][+-]\d)*")
_BUTTONS = re.compile(r"[ABC](?:[\s,]{0,2}(?:(?:→|->)[\s,]{0,2})?[ABC])*", re.IGNORECASE | re.ASCII)
_STEPS = re.compile(r"[LRUD](?:[\s,]{0,2}[LRUD])*")
EXIT = 2 * 6 + 4  # where the back of the first car stands in the end
_DISK_MOVE = re.compile(r"Move disk (\d{1,3}) from Peg (\d{1,3}) to Peg (\d{1,3})")


def rush_hour(answer: str, entry: Entry) -> float:
    """1.0 if the last move brings the first car to the exit."""
    board = entry["metadata"]["board_config"]
    cars = [[i for i, sign in enumerate(board) if sign == name] for name in sorted({*board} - {"o", "x"})]
    taken = {i for i, sign in enumerate(board) if sign != "o"}
    visited = Visited(cars)
    for name, sign, count in _car_moves(answer):
        number = ord(name) - ord("A")
        if cars[0][0] == EXIT or number >= len(cars):
            return 0.0
        step = (1 if sign == "+" else -1) * (cars[number][1] - cars[number][0])
        for _ in range(int(count)):
            before, cars[number] = cars[number], _moved(cars[number], step, taken)
            if cars[number] is before:
                return 0.0
        visited.enter(cars)
    return float(cars[0][0] == EXIT)


def rush_hour_written(answer: str, entry: Entry) -> str:
    """The moves of cars that an answer is, a space between them."""
    return " ".join(map("".join, _car_moves(answer)))


def _car_moves(text: str) -> list[tuple[str, str, str]]:
    """(car, sign, squares) of each move."""
    text = bare(text)
    if not _CAR_MOVES.fullmatch(text):
        raise Unreadable("no moves of cars")
    return re.findall(r"([A-Z])([+-])(\d)", text)[:MAX_ITEMS]


def _moved(car: list[int], step: int, taken: set[int]) -> list[int]:
    """One square on, if that is free."""
    front = (car[-1] if step > 0 else car[0]) + step
    same_row = abs(step) != 1 or front // 6 == car[0] // 6
    if not 0 <= front < 36 or not same_row or front in taken:
        return car
    taken.difference_update(car)
    moved = [cell + step for cell in car]
    taken.update(moved)
    return moved


def sokoban(answer: str, entry: Entry) -> float:
    """1.0 if every box ends on a goal."""
    moves = sokoban_written(answer, entry)
    rows = entry["metadata"]["gamestr"].replace(" ", "").strip().split("\n")
    cells = {(y, x): sign for y, row in enumerate(rows) for x, sign in enumerate(row)}
    walls, boxes, goals = ({at for at, sign in cells.items() if sign in signs} for signs in ("+", "@$", "X$%"))
    (y, x) = next(at for at, sign in cells.items() if sign in "*%")
    tidy = len(moves) > len(entry["answer"])
    visited = Visited((y, x, sorted(boxes)))
    for move in moves:
        if tidy and boxes <= goals:
            return 0.0
        dy, dx = {"L": (0, -1), "R": (0, 1), "U": (-1, 0), "D": (1, 0)}[move]
        ahead, behind = (y + dy, x + dx), (y + 2 * dy, x + 2 * dx)
        if ahead in walls or (ahead in boxes and (behind in boxes or behind in walls)):
            if tidy:
                return 0.0
            continue
        if ahead in boxes:
            boxes.remove(ahead)
            boxes.add(behind)
        y, x = ahead
        if tidy:
            visited.enter((y, x, sorted(boxes)))
    return float(boxes <= goals)


def sokoban_written(answer: str, entry: Entry) -> str:
    """The steps that an answer is, side by side."""
    said = bare(answer)
    if not _STEPS.fullmatch(said):
        raise Unreadable("no moves")
    return "".join(re.findall("[LRUD]", said))


def tower_of_hanoi(answer: str, entry: Entry) -> float:
    """1.0 for the fewest moves, their share for more."""
    facts, moves = entry["metadata"], _disk_moves(answer)
    pegs: dict[int, list[int]] = {peg: [] for peg in range(1, facts["num_pegs"] + 1)}
    whole = list(range(facts["num_disks"], 0, -1))
    pegs[facts["start_peg"]] = list(whole)
    visited = Visited(pegs)
    for disk, source, target in moves:
        if not pegs.get(source) or pegs[source][-1] != disk or target not in pegs:
            return 0.0
        if pegs[target] and pegs[target][-1] < disk:
            return 0.0
        pegs[target].append(pegs[source].pop())
        visited.enter(pegs)
    if pegs[facts["target_peg"]] != whole:
        return 0.0
    fewest: int = facts.get("solution_length", len(moves))
    return min(1.0, fewest / len(moves))


def tower_of_hanoi_written(answer: str, entry: Entry) -> str:
    """The moves of disks that an answer is, one a line."""
    return "\n".join("Move disk {} from Peg {} to Peg {}".format(*move) for move in _disk_moves(answer))


def _disk_moves(text: str) -> list[list[int]]:
    """[disk, from, to] of each line."""
    found = [_DISK_MOVE.fullmatch(" ".join(line.split())) for line in bounded(text).split("\n") if line.strip()]
    return [[int(number) for number in match.groups()] for match in found if match] if all(found) else []


def shortest_path(answer: str, entry: Entry) -> float:
    """1.0 for a shortest way through open cells, half for a longer one."""
    if answer == entry["answer"].strip():
        return 1.0
    matrix, steps = entry["metadata"]["matrix"], bounded(answer).split()
    cells = {(y, x): cell for y, row in enumerate(matrix) for x, cell in enumerate(row)}
    at = next(place for place, cell in cells.items() if cell == "*")
    visited = Visited(at)
    for step in steps:
        dy, dx = DIRECTIONS[step]
        at = at[0] + dy, at[1] + dx
        if cells.get(at, "X") == "X":
            return 0.0
        visited.enter(at)
    if cells[at] != "#":
        return 0.0
    return 1.0 if len(steps) == len(entry["answer"].split()) else 0.5


def words_written(answer: str, entry: Entry) -> str:
    """The words of an answer, a space between them."""
    return " ".join(answer.split())


def jugs(answer: str, entry: Entry) -> float:
    """1.0 for a JSON list of moves after which a jug holds the target."""
    puzzle, moves = entry["metadata"]["puzzle"], _jug_moves(answer)
    tidy = len(moves) > len(json.loads(entry["answer"])) if entry["answer"] else True
    sizes = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", puzzle["jug_capacities"], strict=False))
    held = dict.fromkeys(sizes, 0)
    visited = Visited(held)
    for what, jug in moves:
        if tidy and puzzle["target"] in held.values():
            return 0.0
        source, arrow, target = jug.partition("->")
        if what == "pour" and arrow:
            poured = min(held[source], sizes[target] - held[target])
            held[source] -= poured
            held[target] += poured
        elif what in ("fill", "empty") and jug in sizes:
            held[jug] = sizes[jug] if what == "fill" else 0
        else:
            raise Unreadable("no move")
        if tidy:
            visited.enter(held)
    return float(puzzle["target"] in held.values())


def jugs_written(answer: str, entry: Entry) -> str:
    """The moves of jugs that an answer is, as JSON."""
    return json.dumps([" ".join(move) for move in _jug_moves(answer)])


def _jug_moves(text: str) -> list[tuple[str, str]]:
    """(what, jug or jug->jug) of each move."""
    moves = bounded_json(text)
    if not isinstance(moves, list):
        raise Unreadable("no list")
    return [(what, jug) for what, jug in (move.split() for move in moves)]


def quantum_lock(answer: str, entry: Entry) -> float:
    """1.0 for a shortest sequence of buttons that makes the number, half for a longer one."""
    pressed, key = (_buttons(text) for text in (answer, entry["answer"]))
    facts = entry["metadata"]
    buttons = {button["name"]: button for button in facts["buttons"]}
    value, light = facts["initial_value"], facts["initial_state"]
    tidy = len(pressed) > len(key)
    visited = Visited((value, light))
    for name in pressed:
        button = buttons.get(name)
        if tidy and value == facts["target_value"]:
            return 0.0
        if button is None or button["active_state"] not in (light, "any"):
            if tidy:
                return 0.0
            continue
        by = button["value"]
        value = {"add": value + by, "subtract": value - by, "multiply": value * by}[button["type"]]
        if value.bit_length() > MAX_BITS:
            raise Unreadable("beyond all targets")
        light = "green" if light == "red" else "red"
        if tidy:
            visited.enter((value, light))
    if pressed != key and value != facts["target_value"]:
        return 0.0
    return 1.0 if len(pressed) == len(key) else 0.5


def quantum_lock_written(answer: str, entry: Entry) -> str:
    """The buttons that an answer is, with arrows between them."""
    return " → ".join(_buttons(answer))


def _buttons(text: str) -> str:
    said = bare(text)
    if not _BUTTONS.fullmatch(said):
        raise Unreadable("no buttons")
    return "".join(re.findall("[ABC]", said.upper()))


def rubiks_cube(answer: str, entry: Entry) -> float:
    """1.0 if the moves solve the cube."""
    facts = entry["metadata"]
    try:
        solved = cube.solves(facts["cube_size"], facts["scramble_moves"], answer)
    except Unreadable:
        solved = False
    return 1.0 if solved else 0.01


def rubiks_cube_written(answer: str, entry: Entry) -> str:
    """The turns that an answer is, a space between them."""
    return " ".join(words(answer, ""))


def graph_color(answer: str, entry: Entry) -> float:
    """1.0 for a JSON map from the vertices to colours of which neighbours have two."""
    puzzle, given = entry["metadata"]["puzzle"], bounded_json(answer)
    colours = {vertex: given.get(str(vertex)) for vertex in puzzle["vertices"]}
    if {*map(str, colours)} != {*given} or any(type(colour) is not int for colour in colours.values()):
        return 0.0
    allowed = {*colours.values()} <= {*puzzle["color_options"]}
    return float(allowed and all(colours[one] != colours[other] for one, other in puzzle["edges"]))


def graph_color_written(answer: str, entry: Entry) -> str:
    """The colours that an answer gives, as JSON."""
    return json.dumps(bounded_json(answer))


def cryptarithm(answer: str, entry: Entry) -> float:
    """1.0 for any A=1,B=2 that makes the sum right, a digit for each letter and no other letter."""
    facts, digits = entry["metadata"], dict[str, str]()
    for pair in bounded(answer).split(","):
        letter, digit = (part.strip() for part in pair.split("="))
        if letter in digits or not re.fullmatch(r"\d", digit):
            raise Unreadable("a letter twice, or no digit")
        digits[letter] = str(int(digit))
    summands, total = facts["words_letters"], facts["result_letters"]
    if {*digits} != {*"".join([*summands, total])} or len({*digits.values()}) < len(digits):
        return 0.01
    if not facts["allow_leading_zero"] and any(digits[word[0]] == "0" for word in [*summands, total]):
        return 0.01
    *numbers, result = (int("".join(digits[letter] for letter in word)) for word in [*summands, total])
    return 1.0 if sum(numbers) == result else 0.01


def conclusion(answer: str, entry: Entry) -> float:
    """1.0 for a statement that follows from the premises and says something, in not much more than their signs."""
    facts = entry["metadata"]
    assignments = Assignments(facts["variables"])
    given, premises = assignments.of(bounded(answer)), assignments.all
    for premise in facts["premises"]:
        premises &= assignments.of(premise)
    said = conclusion_written(answer, entry)
    if logic.NOT * 2 in "".join(answer.split()):
        return 0.0
    if len(said) > MAX_SAID + 3 * sum(map(len, facts["premises"])):
        return 0.0
    trivial = given == assignments.all or said in facts["variables"]
    return float(not trivial and not premises & ~given)


def conclusion_written(answer: str, entry: Entry) -> str:
    """The statement that an answer is, without idle brackets."""
    return logic.written(answer)


def word_ladder(answer: str, entry: Entry) -> float:
    """1.0 for a chain of known words from the first to the last, a letter changed at a time; half for each unknown."""
    facts, chain = entry["metadata"], _chain(answer)
    if len(chain) < 2 or (chain[0], chain[-1]) != (facts["start_word"], facts["end_word"]):
        return 0.0
    if len({*chain}) < len(chain):
        return 0.0
    if any(len(word) != facts["word_length"] or not word.isalpha() or not word.isascii() for word in chain):
        return 0.0
    pairs = itertools.pairwise(chain)
    if any(sum(a != b for a, b in zip(one, other, strict=True)) != 1 for one, other in pairs):
        return 0.0
    known = set(facts["words"])
    return 0.5 ** min(sum(word not in known for word in chain), 60)


def word_ladder_written(answer: str, entry: Entry) -> str:
    """The words that an answer is, in capitals."""
    return ",".join(_chain(answer))


def _chain(text: str) -> list[str]:
    return [word.strip() for word in bounded(text).upper().split(",")]
