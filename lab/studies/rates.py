"""Brackets the learning rate of an arm: adds rates until the best lies between worse ones, or says
that it does not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

WIDENINGS = 3  # rates added at most


@dataclass(frozen=True, slots=True)
class Sweep:
    """The measurement of every rate, and whether the best rate is between two worse ones."""

    best: float
    values: Mapping[float, float]  # rate -> its measurement; higher is better
    edge: str  # "" where bracketed on both sides, else "lowest" or "highest"


def sweep(
    rates: Sequence[float], measure: Callable[[float], float], widenings: int = WIDENINGS
) -> Sweep:
    """Measures all rates. While the best one is the lowest or the highest, measures one more beyond
    it, as far from it (by ratio) as its neighbour. `widenings`: how many rates are added at most.
    """
    values = {rate: measure(rate) for rate in sorted(rates)}
    for _ in range(widenings):
        beyond = _beyond(values)
        if beyond is None:
            break
        values[beyond] = measure(beyond)
    best = max(values, key=values.__getitem__)
    edge = "" if _beyond(values) is None else ("lowest" if best == min(values) else "highest")
    return Sweep(best, dict(sorted(values.items())), edge)


def _beyond(values: Mapping[float, float]) -> float | None:
    """The next rate to try; None if the best has worse ones on both sides, or is the only one."""
    order = sorted(values)
    best = order.index(max(values, key=values.__getitem__))
    if len(order) < 2 or 0 < best < len(order) - 1:
        return None
    inner = order[1] if best == 0 else order[-2]
    return float(f"{order[best] * order[best] / inner:.6g}")
