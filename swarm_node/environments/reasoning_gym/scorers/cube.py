"""Rubik's cube, as turns of its stickers: enough to tell whether moves solve it.

A turn is a permutation of the stickers, worked out once, so that a move costs microseconds whatever it is called.
"""

import re
from functools import cache

from swarm_node.environments.reasoning_gym.scorers.reading import MAX_ITEMS, Unreadable, words

MAX_SIZE = 7
LONGEST = 1.5  # moves for one of the scramble, whose inverse is an answer
_MOVE = re.compile(r"(\d?)([LRDUBF])(w?)('?)([23]?)|([XYZMES])('?)([23]?)")
_AXIS = {"L": 0, "R": 0, "M": 0, "X": 0, "D": 1, "U": 1, "E": 1, "Y": 1, "B": 2, "F": 2, "S": 2, "Z": 2}
_BACKWARDS = frozenset("RDFESXZ")  # that turn against the sense from the first of the other two axes to the second

Sticker = tuple[int, ...]  # where its piece is, three coordinates from -(size - 1) to size - 1, and where it looks


def solves(size: int, scramble: str, moves: str) -> bool:
    """Whether the moves solve the scrambled cube. Unreadable where one is no move in Singmaster's notation."""
    mixed, turned = _turns(size, scramble), _turns(size, moves)
    if len(turned) > LONGEST * len(mixed):
        raise Unreadable("a long way round")
    stickers = _turned(size, list(range(len(_places(size)))), mixed)
    seen = [stickers]
    for turn in turned if len(turned) > len(mixed) else ():
        after = _turned(size, seen[-1], [turn])
        if after in seen or _is_solved(size, seen[-1]):
            raise Unreadable("a way that comes back to where it was, or goes on in the end")
        seen.append(after)
    return _is_solved(size, _turned(size, stickers, turned))


def _turned(size: int, stickers: list[int], turns: list[tuple[int, tuple[int, ...], int]]) -> list[int]:
    for turn in turns:
        stickers = [stickers[place] for place in _permutation(size, *turn)]
    return stickers


def _is_solved(size: int, stickers: list[int]) -> bool:
    colours: dict[Sticker, set[Sticker]] = {}
    for place, sticker in zip(_places(size), stickers, strict=True):
        colours.setdefault(place[3:], set()).add(_places(size)[sticker][3:])
    return all(len(found) == 1 for found in colours.values())


def _turns(size: int, moves: str) -> list[tuple[int, tuple[int, ...], int]]:
    """(axis, layers, quarter turns) of each move."""
    if not 2 <= size <= MAX_SIZE:
        raise Unreadable("no such cube")
    found = words(moves, "")
    if len(found) > MAX_ITEMS:
        raise Unreadable("too many moves")
    return [_turn(size, move) for move in found]


@cache
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


def _turn(size: int, move: str) -> tuple[int, tuple[int, ...], int]:
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


@cache
def _places(size: int) -> list[Sticker]:
    outside, found = size - 1, []
    for axis in range(3):
        for side in (-1, 1):
            for first in range(size):
                for second in range(size):
                    place = [2 * first - outside, 2 * second - outside]
                    place.insert(axis, side * outside)
                    found.append((*place, *(side * (each == axis) for each in range(3))))
    return found


@cache
def _permutation(size: int, axis: int, layers: tuple[int, ...], quarters: int) -> list[int]:
    """For each place, the place whose sticker comes there."""
    places = _places(size)
    index = {place: k for k, place in enumerate(places)}
    moved = list(range(len(places)))
    for k, place in enumerate(places):
        if (place[axis] + size - 1) // 2 in layers:
            target = place
            for _ in range(quarters):
                target = (*_quarter(target[:3], axis), *_quarter(target[3:], axis))
            moved[index[target]] = k
    return moved


def _quarter(vector: tuple[int, ...], axis: int) -> tuple[int, ...]:
    first, second = (other for other in range(3) if other != axis)
    turned = list(vector)
    turned[first], turned[second] = -vector[second], vector[first]
    return tuple(turned)
