"""Scorers of data sets whose answer is a way to a goal: moves are made one by one, and there are so many at most.

Any way that leads there is right, as with the library, if every move of it can be made and none leads back to where the
way has been: moves that do nothing could say anything. Only a way no longer than the data set's own may be less tidy,
since some of these are.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from swarm_node.environments.reasoning_gym.scorers.reading import MAX_ITEMS, Unreadable, bare, bounded, bounded_json

Entry = Mapping[str, Any]
State = TypeVar("State")
Move = TypeVar("Move")

DIRECTIONS = {"right": (0, 1), "down": (1, 0), "left": (0, -1), "up": (-1, 0)}
STEPS = {word[0].upper(): step for word, step in DIRECTIONS.items()}
MAX_BITS = 512  # of the number on a quantum lock
EXIT = 2 * 6 + 4  # where the back of the first car stands in the end
DISK_MOVE = "Move disk {} from Peg {} to Peg {}"
_DISK_MOVE = re.compile(DISK_MOVE.replace("{}", r"(\d{1,3})"))
_CAR_MOVES = re.compile(r"[A-Z][+-]\d(?:[\s,]{0,2}[A-Z][+-]\d)*")
_BUTTONS = re.compile(r"[ABC](?:[\s,]{0,2}(?:(?:→|->)[\s,]{0,2})?[ABC])*", re.IGNORECASE | re.ASCII)
_STEPS = re.compile(r"[LRUD](?:[\s,]{0,2}[LRUD])*")


def walk(
    start: State,
    moves: Iterable[Move],
    step: Callable[[State, Move], State | None],
    done: Callable[[State], bool] = lambda state: False,
    tidy: bool = True,
) -> State:
    """Where the moves lead. `step` gives None for a move that cannot be made. Unreadable for a way that tries one, goes
    on where it is `done`, or comes back to where it was; one that need not be tidy only does not move then."""
    state, been = start, {repr(start)}
    for move in moves:
        after = step(state, move)
        if tidy:
            if after is None or done(state) or repr(after) in been:
                raise Unreadable("a move that cannot be made, or says nothing")
            been.add(repr(after))
        state = state if after is None else after
    return state


def rush_hour(answer: str, entry: Entry) -> float:
    """1.0 if the last move brings the first car to the exit."""
    board = entry["metadata"]["board_config"]
    walls = {i for i, sign in enumerate(board) if sign == "x"}
    cars = [[i for i, sign in enumerate(board) if sign == name] for name in sorted({*board} - {"o", "x"})]

    def drive(cars: list[list[int]], move: str) -> list[list[int]] | None:
        number = ord(move[0]) - ord("A")
        car, taken = cars[number], walls.union(*cars[:number], *cars[number + 1 :])
        step = int(move[1] + "1") * (car[1] - car[0])
        for _ in range(int(move[2])):
            row, car = car[0] // 6, [cell + step for cell in car]
            if taken & {*car} or any(not 0 <= cell < 36 or (abs(step) == 1 and cell // 6 != row) for cell in car):
                return None
        return [*cars[:number], car, *cars[number + 1 :]]

    def is_out(cars: list[list[int]]) -> bool:
        return cars[0][0] == EXIT

    return float(is_out(walk(cars, car_moves(answer), drive, is_out)))


def car_moves(text: str) -> list[str]:
    """Car, sign and squares of each move, such as A+2."""
    text = bare(text)
    if not _CAR_MOVES.fullmatch(text):
        raise Unreadable("no moves of cars")
    return re.findall(r"[A-Z][+-]\d", text)[:MAX_ITEMS]


def sokoban(answer: str, entry: Entry) -> float:
    """1.0 if every box ends on a goal."""
    rows = entry["metadata"]["gamestr"].replace(" ", "").strip().split("\n")
    cells = {(y, x): sign for y, row in enumerate(rows) for x, sign in enumerate(row)}
    walls, boxes, goals = ({at for at, sign in cells.items() if sign in signs} for signs in ("+", "@$", "X$%"))
    start = next(at for at, sign in cells.items() if sign in "*%")

    def push(state: tuple[Any, list[Any]], move: str) -> tuple[Any, list[Any]] | None:
        ((y, x), boxes), (dy, dx) = state, STEPS[move]
        ahead, behind = (y + dy, x + dx), (y + 2 * dy, x + 2 * dx)
        if ahead in walls or (ahead in boxes and (behind in boxes or behind in walls)):
            return None
        return ahead, sorted(behind if box == ahead else box for box in boxes)

    def is_solved(state: tuple[Any, list[Any]]) -> bool:
        return {*state[1]} <= goals

    moves = steps(answer)
    return float(is_solved(walk((start, sorted(boxes)), moves, push, is_solved, len(moves) > len(entry["answer"]))))


def steps(text: str) -> str:
    """The steps that an answer is, side by side."""
    said = bare(text)
    if not _STEPS.fullmatch(said):
        raise Unreadable("no moves")
    return "".join(re.findall("[LRUD]", said))


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


def jugs(answer: str, entry: Entry) -> float:
    """1.0 for a JSON list of moves after which a jug holds the target."""
    puzzle, moves = entry["metadata"]["puzzle"], jug_moves(answer)
    sizes = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", puzzle["jug_capacities"], strict=False))

    def move_water(before: dict[str, int], move: tuple[str, str]) -> dict[str, int]:
        held, (what, jug) = {**before}, move
        source, arrow, target = jug.partition("->")
        if what == "pour" and arrow:
            poured = min(held[source], sizes[target] - held[target])
            held[source] -= poured
            held[target] += poured
        elif what in ("fill", "empty") and jug in sizes:
            held[jug] = sizes[jug] if what == "fill" else 0
        else:
            raise Unreadable("no move")
        return held

    def is_measured(held: dict[str, int]) -> bool:
        return puzzle["target"] in held.values()

    tidy = len(moves) > len(json.loads(entry["answer"])) if entry["answer"] else True
    return float(is_measured(walk(dict.fromkeys(sizes, 0), moves, move_water, is_measured, tidy)))


def jug_moves(text: str) -> list[tuple[str, str]]:
    """(what, jug or jug->jug) of each move."""
    moves = bounded_json(text)
    if not isinstance(moves, list):
        raise Unreadable("no list")
    return [(what, jug) for what, jug in (move.split() for move in moves)]


def quantum_lock(answer: str, entry: Entry) -> float:
    """1.0 for a shortest sequence of buttons that makes the number, half for a longer one."""
    pressed, key = (pressed_buttons(text) for text in (answer, entry["answer"]))
    facts = entry["metadata"]
    buttons = {button["name"]: button for button in facts["buttons"]}

    def press(state: tuple[int, str], name: str) -> tuple[int, str] | None:
        (value, light), button = state, buttons.get(name)
        if button is None or button["active_state"] not in (light, "any"):
            return None
        by = button["value"]
        value = {"add": value + by, "subtract": value - by, "multiply": value * by}[button["type"]]
        if value.bit_length() > MAX_BITS:
            raise Unreadable("beyond all targets")
        return value, "green" if light == "red" else "red"

    def is_open(state: tuple[int, str]) -> bool:
        return bool(state[0] == facts["target_value"])

    start = facts["initial_value"], facts["initial_state"]
    if not is_open(walk(start, pressed, press, is_open, len(pressed) > len(key))) and pressed != key:
        return 0.0
    return 1.0 if len(pressed) == len(key) else 0.5


def pressed_buttons(text: str) -> str:
    """The names of the buttons, side by side."""
    said = bare(text)
    if not _BUTTONS.fullmatch(said):
        raise Unreadable("no buttons")
    return "".join(re.findall("[ABC]", said.upper()))


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
