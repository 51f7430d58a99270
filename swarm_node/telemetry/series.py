"""Small shapes of a number over time: moving average and a line of block characters. Pure functions."""

from collections.abc import Sequence
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"


def moving_average(values: Sequence[float], window: int) -> list[float]:
    """Mean of the last `window` values at every point, of fewer at the start. The length stays the same."""
    averages, total = [], 0.0
    for index, value in enumerate(values):
        total += value - (values[index - window] if index >= window else 0.0)
        averages.append(total / min(index + 1, window))
    return averages


def sparkline(values: Sequence[float], width: int, ceiling: float = 0.0) -> str:
    """`values` from 0 to `ceiling`, or to their largest, as at most `width` characters, each a mean of its share."""
    if not values:
        return ""
    width = min(width, len(values))
    edges = [index * len(values) // width for index in range(width + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    ceiling = ceiling or max(means)
    if ceiling <= 0:
        return BLOCKS[0] * width
    return "".join(BLOCKS[min(len(BLOCKS) - 1, max(0, int(mean / ceiling * len(BLOCKS))))] for mean in means)
