"""Figures by round in bounded memory, however many rounds there are.

events.jsonl is their only source: a database beside it could say something else.
"""

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

MOST = 1024  # points of a whole run
RECENT = 512  # rounds kept as they are

Row = tuple[int, Mapping[str, float]]  # a round, and its figures


class History:
    """Points of equal width, each the mean of its rounds. When there are too many, they become twice as wide."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.width = 1  # rounds of a point
        self._keys: array[int] = array("q")  # first round // width
        self._sums: dict[str, array[float]] = {}
        self._counts: dict[str, array[int]] = {}

    def add(self, number: int, figures: Mapping[str, float]) -> None:
        """Rounds come in order. One that comes again (a node went on from a checkpoint) replaces what came after it."""
        while self._keys and self._keys[-1] > number // self.width:
            self._cut()
        if not self._keys or self._keys[-1] < number // self.width:
            self._keys.append(number // self.width)
            for name in self._sums:
                self._sums[name].append(0.0)
                self._counts[name].append(0)
        for name, value in figures.items():
            if name not in self._sums:
                self._sums[name] = array("d", [0.0]) * len(self._keys)
                self._counts[name] = array("q", [0]) * len(self._keys)
            self._sums[name][-1] += value
            self._counts[name][-1] += 1
        while len(self._keys) > self._most:
            self._widen()

    def columns(self) -> dict[str, Any]:
        """`rounds`: the first of each point; `series`: a mean for each point, None where there is none."""
        return {
            "width": self.width,
            "rounds": [key * self.width for key in self._keys],
            "series": {name: list(self._means(name)) for name in sorted(self._sums)},
        }

    def _means(self, name: str) -> Iterator[float | None]:
        for total, count in zip(self._sums[name], self._counts[name], strict=True):
            yield float(f"{total / count:.6g}") if count else None

    def _cut(self) -> None:
        self._keys.pop()
        for name in self._sums:
            self._sums[name].pop()
            self._counts[name].pop()

    def _widen(self) -> None:
        self.width *= 2
        old = list(self._keys)
        self._keys = array("q", sorted({key // 2 for key in old}))
        places = {key: index for index, key in enumerate(self._keys)}
        for name in self._sums:
            sums, counts = array("d", [0.0]) * len(places), array("q", [0]) * len(places)
            for key, total, count in zip(old, self._sums[name], self._counts[name], strict=True):
                sums[places[key // 2]] += total
                counts[places[key // 2]] += count
            self._sums[name], self._counts[name] = sums, counts


class Recent:
    """The last rounds as they were."""

    def __init__(self, most: int = RECENT) -> None:
        self._rows: deque[Row] = deque(maxlen=most)

    def add(self, number: int, figures: Mapping[str, float]) -> None:
        """As `History.add`."""
        while self._rows and self._rows[-1][0] >= number:
            self._rows.pop()
        self._rows.append((number, figures))

    def columns(self) -> dict[str, Any]:
        """As `History.columns`."""
        names = sorted({name for _, figures in self._rows for name in figures})
        return {
            "width": 1,
            "rounds": [number for number, _ in self._rows],
            "series": {name: [figures.get(name) for _, figures in self._rows] for name in names},
        }
