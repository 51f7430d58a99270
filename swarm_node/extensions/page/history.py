"""Figures by round in bounded memory, however many rounds there are.

events.jsonl is their only source: a database beside it could say something else.
"""

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

MOST = 1024  # points of a whole run
RECENT = 512  # rounds kept as they are


class History:
    """Points of equal width, each the mean of its rounds. If there are too many, they become twice as wide, or the
    oldest goes."""

    def __init__(self, most: int = MOST, widens: bool = True) -> None:
        self._most, self._widens = most, widens
        self.width = 1  # rounds of a point
        self._keys: array[int] = array("q")  # first round // width
        self._sums: dict[str, array[float]] = {}
        self._counts: dict[str, array[float]] = {}

    def add(self, number: int, figures: Mapping[str, float]) -> None:
        """Rounds come in order. One that comes again (a node went on from a checkpoint) replaces what came after it."""
        while self._keys and self._keys[-1] * self.width >= number:
            self._drop(-1)
        if not self._keys or self._keys[-1] < number // self.width:
            self._keys.append(number // self.width)
            for column in self._columns():
                column.append(0.0)
        for name, value in figures.items():
            for columns in (self._sums, self._counts):
                columns.setdefault(name, array("d", [0.0]) * len(self._keys))
            self._sums[name][-1] += value
            self._counts[name][-1] += 1
        while len(self._keys) > self._most:
            if self._widens:
                self._widen()
            else:
                self._drop(0)

    def columns(self) -> dict[str, Any]:
        """`rounds`: the first of each point; `series`: a mean for each point, None where there is none."""
        return {
            "width": self.width,
            "rounds": [key * self.width for key in self._keys],
            "series": {name: list(self._means(name)) for name in sorted(self._sums)},
        }

    def _columns(self) -> Iterator["array[float]"]:
        yield from self._sums.values()
        yield from self._counts.values()

    def _means(self, name: str) -> Iterator[float | None]:
        for total, count in zip(self._sums[name], self._counts[name], strict=True):
            yield float(f"{total / count:.6g}") if count else None

    def _drop(self, index: int) -> None:
        self._keys.pop(index)
        for column in self._columns():
            column.pop(index)

    def _widen(self) -> None:
        self.width *= 2
        old, self._keys = self._keys, array("q", sorted({key // 2 for key in self._keys}))
        places = {key: index for index, key in enumerate(self._keys)}
        for column in self._columns():
            narrow = array("d", column)
            column[:] = array("d", [0.0]) * len(places)
            for key, value in zip(old, narrow, strict=True):
                column[places[key // 2]] += value
