"""Rubik's cube, as turns of its stickers: enough to tell whether moves solve it.

A turn is a permutation of the stickers, worked out once, so that a move costs microseconds whatever it is called.
"""

import re
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

from swarm_node.environments.reasoning_gym.scorers.moves import walk
from swarm_node.environments.reasoning_gym.scorers.reading import MAX_ITEMS, Unreadable, words

MAX_SIZE = 7
LONGEST = 1.5  # moves for one of the scramble, whose inverse is an answer
_MOVE = re.compile(r"(\d?)([LRDUBF])(w?)('?)([23]?)|([XYZMES])('?)([23]?)")
_AXIS = {"L": 0, "R": 0, "M": 0, "X": 0, "D": 1, "U": 1, "E": 1, "Y": 1, "B": 2, "F": 2, "S": 2, "Z": 2}
_BACKWARDS = frozenset("RDFESXZ")  # that turn against the sense from the first of the other two axes to the second

Sticker = tuple[int, ...]  # its place: size or -size on its face's axis, else from 1 - size to size - 1
Turn = tuple[int, tuple[int, ...], int]  # axis, layers, quarter turns


def rubiks_cube(answer: str, entry: Mapping[str, Any]) -> float:
    """1.0 if the moves solve the cube."""
    facts = entry["metadata"]
    try:
        return 1.0 if solves(facts["cube_size"], facts["scramble_moves"], answer) else 0.01
    except Unreadable:
        return 0.01


def solves(size: int, scramble: str, moves: str) -> bool:
    """Whether the moves solve the scrambled cube. Unreadable where one is no move in Singmaster's notation, or the way
    is long and says something by how it is."""
    mixed, turned = _turns(size, scramble), _turns(size, moves)
    if len(turned) > LONGEST * len(mixed):
        raise Unreadable("a long way round")
    faces = [_face(size, place) for place in _places(size)]

    def turn(stickers: list[int], by: Turn) -> list[int]:
        return [stickers[place] for place in _permutation(size, *by)]

    def is_solved(stickers: list[int]) -> bool:
        return len({(face, faces[sticker]) for face, sticker in zip(faces, stickers, strict=True)}) == 6

    scrambled = walk(list(range(len(faces))), mixed, turn, tidy=False)
    return is_solved(walk(scrambled, turned, turn, is_solved, len(turned) > len(mixed)))


def _turns(size: int, moves: str) -> list[Turn]:
    if not 2 <= size <= MAX_SIZE:
        raise Unreadable("no such cube")
    found = words(moves, "")
    if len(found) > MAX_ITEMS:
        raise Unreadable("too many moves")
    return [_turn(size, move) for move in found]


def _turn(size: int, move: str) -> Turn:
    match = _MOVE.fullmatch(move)
    if match is None or not move.isascii():
        raise Unreadable("no move")
    layer, face, wide, reverse, count, middle, back, times = match.groups(default="")
    if layer == "1" and not wide:
        raise Unreadable("a number that says nothing")
    name = face or middle
    layers = _layers(size, name, int(layer or (2 if wide else 1)), bool(wide))
    quarters = int(count or times or "1") * (-1 if name in _BACKWARDS else 1)
    return _AXIS[name], layers, (-quarters if reverse or back else quarters) % 4


def _layers(size: int, face: str, layer: int, wide: bool) -> tuple[int, ...]:
    if face in "XYZ":
        return tuple(range(size))
    if face in "MES":
        if size % 2 == 0:
            raise Unreadable("no middle layer")
        return (size // 2,)
    if not 1 <= layer <= size:
        raise Unreadable("no such layer")
    depth = range(layer) if wide else range(layer - 1, layer)
    return tuple(size - 1 - each if face in "RUF" else each for each in depth)


@cache
def _places(size: int) -> list[Sticker]:
    flat = list(product(range(1 - size, size, 2), repeat=2))
    return [(*at[:axis], side, *at[axis:]) for axis in range(3) for side in (-size, size) for at in flat]


def _face(size: int, place: Sticker) -> tuple[int, int]:
    return next((axis, at) for axis, at in enumerate(place) if abs(at) == size)


@cache
def _permutation(size: int, axis: int, layers: tuple[int, ...], quarters: int) -> list[int]:
    """For each place, the place whose sticker comes there."""
    index = {place: k for k, place in enumerate(_places(size))}
    moved = list(range(len(index)))
    one, other = (each for each in range(3) if each != axis)
    for place, k in index.items():
        target = list(place)
        if max(0, (place[axis] + size - 1) // 2) in layers:
            for _ in range(quarters):
                target[one], target[other] = -target[other], target[one]
        moved[index[tuple(target)]] = k
    return moved
