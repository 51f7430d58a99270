"""Figures by round in bounded memory, however many rounds there are.

events.jsonl is their only source: a database beside it could say something else.
"""

from array import array
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

MOST = 1024  # points of a whole run
RECENT = 512  # rounds kept as they are


class History:
    """Points of equal width, each the mean of its rounds. If there are too many, they become twice
    as wide, or the oldest goes.
    """

    def __init__(self, most: int = MOST, widens: bool = True) -> None:
        self._most, self._widens = most, widens
        self.width = 1  # rounds of a point
        self._keys: array[int] = array("q")  # first round // width
        # Sums of a point's rounds, and their number
        self._series: dict[str, tuple[array[float], array[float]]] = {}

    def add(self, number: int, figures: Mapping[str, float]) -> None:
        """Adds the figures of a round, or of a slot of time. Their numbers rise. A number that
        comes again, as after a node resumed from a checkpoint, replaces the points that begin at it
        or later. If it lies within a wider point, that point keeps its figures, so its mean counts
        a few rounds twice.
        """
        while self._keys and self._keys[-1] * self.width >= number:
            self._drop(-1)
        if not self._keys or self._keys[-1] < number // self.width:
            self._keys.append(number // self.width)
            for column in self._columns():
                column.append(0.0)
        for name, value in figures.items():
            if name not in self._series:
                empty = array("d", [0.0]) * len(self._keys)
                self._series[name] = empty, array("d", empty)
            sums, counts = self._series[name]
            sums[-1] += value
            counts[-1] += 1
        while len(self._keys) > self._most:
            if self._widens:
                self._widen()
            else:
                self._drop(0)

    def columns(self) -> dict[str, Any]:
        """`rounds`: the first round of each point; `series`: a mean for each point, None where
        there is none.
        """
        return {
            "width": self.width,
            "rounds": [key * self.width for key in self._keys],
            "series": {
                name: [*map(_mean, sums, counts)]
                for name, (sums, counts) in sorted(self._series.items())
            },
        }

    def _columns(self) -> Iterator["array[float]"]:
        return chain.from_iterable(self._series.values())

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


def _mean(total: float, count: float) -> float | None:
    return float(f"{total / count:.6g}") if count else None
