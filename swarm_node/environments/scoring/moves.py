"""Scorers of data sets whose answer is a way to a goal: moves are made one by one, and there are so many at most.

Any way that leads there is right, as with the library. The library skips moves that it cannot read; here they make the
answer a wrong one. Those that can be read and not be made are passed over, as the library does.
"""

import itertools
import re
from collections.abc import Mapping
from typing import Any

from swarm_node.environments.scoring import cube
from swarm_node.environments.scoring.logic import Assignments
from swarm_node.environments.scoring.reading import MAX_ITEMS, Unreadable, bare, bounded, bounded_json, words

Entry = Mapping[str, Any]
DIRECTIONS = {"right": (0, 1), "down": (1, 0), "left": (0, -1), "up": (-1, 0)}
MAX_BITS = 512  # of the number on a quantum lock
_CAR_MOVES = re.compile(r"(?:[A-Z][+-]\d{1,2}[\s,]*)+")
_DISK_MOVE = re.compile(r"Move disk (\d{1,3}) from Peg (\d{1,3}) to Peg (\d{1,3})")
_AGENT = re.compile(r"(?:agent)?\s?\[(\d{1,3}(?:\.\d{1,3})?),\s?(\d{1,3}(?:\.\d{1,3})?)\]", re.IGNORECASE)
_SQUARE = re.compile(r"move\((box_\w{1,30}), square\[(\d{1,3}(?:\.\d{1,3})?),\s?(\d{1,3}(?:\.\d{1,3})?)\]\)")
_TARGET = re.compile(r"move\(box_(\w{1,30}), target_(\w{1,30})\)")


def rush_hour(answer: str, entry: Entry) -> float:
    """1.0 if the first car reaches the exit. A car stops at what is in its way."""
    answer = bare(answer)
    if not _CAR_MOVES.fullmatch(answer):
        return 0.0
    board = entry["metadata"]["board_config"]
    cars = [[i for i, sign in enumerate(board) if sign == name] for name in sorted({*board} - {"o", "x"})]
    taken = {i for i, sign in enumerate(board) if sign != "o"}
    for name, sign, count in re.findall(r"([A-Z])([+-])(\d+)", answer)[:MAX_ITEMS]:
        number = ord(name) - ord("A")
        if number < len(cars):
            step = (1 if sign == "+" else -1) * (cars[number][1] - cars[number][0])
            for _ in range(min(int(count), 6)):
                cars[number] = _moved(cars[number], step, taken)
    return 1.0 if cars[0][0] == 2 * 6 + 4 else 0.01


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
    moves = "".join(words(bare(answer)))
    if not {*moves} <= {*"LRUD"}:
        return 0.0
    rows = entry["metadata"]["gamestr"].replace(" ", "").strip().split("\n")
    cells = {(y, x): sign for y, row in enumerate(rows) for x, sign in enumerate(row)}
    walls, boxes, goals = ({at for at, sign in cells.items() if sign in signs} for signs in ("+", "@$", "X$%"))
    (y, x) = next(at for at, sign in cells.items() if sign in "*%")
    for move in moves:
        dy, dx = {"L": (0, -1), "R": (0, 1), "U": (-1, 0), "D": (1, 0)}[move]
        ahead, behind = (y + dy, x + dx), (y + 2 * dy, x + 2 * dx)
        if ahead in walls or (ahead in boxes and (behind in boxes or behind in walls)):
            continue
        if ahead in boxes:
            boxes.remove(ahead)
            boxes.add(behind)
        y, x = ahead
    return float(boxes <= goals)


def tower_of_hanoi(answer: str, entry: Entry) -> float:
    """1.0 for the fewest moves, their share for more, little for allowed ones that do not solve it."""
    facts = entry["metadata"]
    moves = [line.strip() for line in bounded(answer).splitlines() if line.strip()]
    pegs: dict[int, list[int]] = {peg: [] for peg in range(1, facts["num_pegs"] + 1)}
    whole = list(range(facts["num_disks"], 0, -1))
    pegs[facts["start_peg"]] = list(whole)
    for move in moves:
        match = _DISK_MOVE.fullmatch(" ".join(move.split()))
        disk, source, target = map(int, match.groups()) if match else (0, 0, 0)
        if not pegs.get(source) or pegs[source][-1] != disk or target not in pegs:
            return 0.0
        if pegs[target] and pegs[target][-1] < disk:
            return 0.0
        pegs[target].append(pegs[source].pop())
    if pegs[facts["target_peg"]] != whole:
        return 0.05 if moves else 0.0
    fewest: int = facts.get("solution_length", len(moves))
    return min(1.0, fewest / len(moves))


def shortest_path(answer: str, entry: Entry) -> float:
    """1.0 for a shortest way through open cells, half for a longer one."""
    if answer == entry["answer"].strip():
        return 1.0
    matrix, steps = entry["metadata"]["matrix"], bounded(answer).split()
    cells = {(y, x): cell for y, row in enumerate(matrix) for x, cell in enumerate(row)}
    at = next(place for place, cell in cells.items() if cell == "*")
    for step in steps:
        dy, dx = DIRECTIONS[step]
        at = at[0] + dy, at[1] + dx
        if cells.get(at, "X") == "X":
            return 0.0
    if cells[at] != "#":
        return 0.0
    return 1.0 if len(steps) == len(entry["answer"].split()) else 0.5


def jugs(answer: str, entry: Entry) -> float:
    """1.0 for a JSON list of moves after which a jug holds the target."""
    puzzle, moves = entry["metadata"]["puzzle"], bounded_json(answer)
    sizes = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", puzzle["jug_capacities"], strict=False))
    held = dict.fromkeys(sizes, 0)
    for move in moves if isinstance(moves, list) else [""]:
        what, jug = move.split()
        source, arrow, target = jug.partition("->")
        if what == "pour" and arrow:
            poured = min(held[source], sizes[target] - held[target])
            held[source] -= poured
            held[target] += poured
        elif what in ("fill", "empty") and jug in sizes:
            held[jug] = sizes[jug] if what == "fill" else 0
        else:
            raise Unreadable("no move")
    return 1.0 if puzzle["target"] in held.values() else 0.01


def boxnet(answer: str, entry: Entry) -> float:
    """1.0 if every box reaches its target, else the share of those that do."""
    plans = bounded_json(answer)
    squares = {name: list(things) for name, things in entry["metadata"]["initial_state"].items()}
    boxes = _boxes(squares)
    for plan in plans:
        for agent, action in plan.items():
            _act(squares, agent, action)
    return max(0.05, (boxes - _boxes(squares)) / boxes)


def _act(squares: dict[str, list[str]], agent: str, action: str) -> None:
    """What one agent does. Unreadable where it is no action, or one towards a square that is not there."""
    at, onward, home = _AGENT.fullmatch(agent), _SQUARE.fullmatch(action), _TARGET.fullmatch(action)
    if at is None or (onward is None and home is None):
        raise Unreadable("no action")
    here = [float(part) for part in at.groups()]
    things = squares.get(f"{here[0]}_{here[1]}", [])
    if home is not None:
        box, target = (f"{kind}_{home[1]}" for kind in ("box", "target"))
        if home[1] == home[2] and box in things and target in things:
            things.remove(box)
            things.remove(target)
    elif onward is not None and onward[1] in things:
        there = [float(part) for part in onward.groups()[1:]]
        if sorted(abs(one - other) for one, other in zip(here, there, strict=True)) == [0, 1]:
            squares[f"{there[0]}_{there[1]}"].append(onward[1])
            things.remove(onward[1])


def _boxes(squares: Mapping[str, list[str]]) -> int:
    return sum(thing.startswith("box_") for things in squares.values() for thing in things)


def quantum_lock(answer: str, entry: Entry) -> float:
    """1.0 for a shortest sequence of buttons that makes the number, half for a longer one."""
    pressed, key = (_buttons(text) for text in (answer, entry["answer"]))
    facts = entry["metadata"]
    buttons = {button["name"]: button for button in facts["buttons"]}
    value, light = facts["initial_value"], facts["initial_state"]
    for name in pressed:
        button = buttons.get(name)
        if button is None or button["active_state"] not in (light, "any"):
            continue
        by = button["value"]
        value = {"add": value + by, "subtract": value - by, "multiply": value * by}[button["type"]]
        if value.bit_length() > MAX_BITS:
            raise Unreadable("beyond all targets")
        light = "green" if light == "red" else "red"
    if pressed != key and value != facts["target_value"]:
        return 0.0
    return 1.0 if len(pressed) == len(key) else 0.5


def _buttons(text: str) -> str:
    pressed = "".join(words(bare(text).replace("->", " "), "→,")).upper()
    if not {*pressed} <= {*"ABC"}:
        raise Unreadable("no buttons")
    return pressed


def rubiks_cube(answer: str, entry: Entry) -> float:
    """1.0 if the moves solve the cube."""
    facts = entry["metadata"]
    try:
        solved = cube.solves(facts["cube_size"], facts["scramble_moves"], answer)
    except Unreadable:
        solved = False
    return 1.0 if solved else 0.01


def graph_color(answer: str, entry: Entry) -> float:
    """1.0 for a JSON map from the vertices to colours of which neighbours have two."""
    puzzle, given = entry["metadata"]["puzzle"], bounded_json(answer)
    colours = {vertex: given.get(str(vertex)) for vertex in puzzle["vertices"]}
    if {*map(str, colours)} != {*given} or any(type(colour) is not int for colour in colours.values()):
        return 0.01
    allowed = {*colours.values()} <= {*puzzle["color_options"]}
    return 1.0 if allowed and all(colours[one] != colours[other] for one, other in puzzle["edges"]) else 0.01


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
    """1.0 for a statement that follows from the premises, 0.25 for one that says nothing, little for another."""
    facts = entry["metadata"]
    assignments = Assignments(facts["variables"])
    given, premises = assignments.of(bounded(answer)), assignments.all
    for premise in facts["premises"]:
        premises &= assignments.of(premise)
    if premises & ~given:
        return 0.05
    trivial = given == assignments.all or answer.strip("() \t\n") in facts["variables"]
    return 0.25 if trivial else 1.0


def word_ladder(answer: str, entry: Entry) -> float:
    """1.0 for a chain of known words from the first to the last, a letter changed at a time; half for each unknown."""
    facts, chain = entry["metadata"], [word.strip() for word in bounded(answer).upper().split(",")]
    if len(chain) < 2 or (chain[0], chain[-1]) != (facts["start_word"], facts["end_word"]):
        return 0.0
    if any(len(word) != facts["word_length"] for word in chain):
        return 0.0
    pairs = itertools.pairwise(chain)
    if any(sum(a != b for a, b in zip(one, other, strict=True)) != 1 for one, other in pairs):
        return 0.0
    known = set(facts["words"])
    return 0.5 ** min(sum(word not in known for word in chain), 60)
