"""The learning rate of an arm, bracketed: a sweep widens itself until the best lies between worse ones, or says so."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

WIDENINGS = 3  # rates that are added at most


@dataclass(frozen=True, slots=True)
class Sweep:
    """What was measured at every rate, and whether the best is between two worse ones."""

    best: float
    values: Mapping[float, float]  # rate -> what is to be as high as possible
    edge: str  # "" where bracketed on both sides, else "lowest" or "highest"


def sweep(rates: Sequence[float], measure: Callable[[float], float], widenings: int = WIDENINGS) -> Sweep:
    """Measures the rates; while the best is the lowest or the highest, one more beyond it, at the distance of its
    neighbour. `widenings` bounds how many are added."""
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
    """The next rate to try; None where the best has worse ones on both sides, or stands alone."""
    order = sorted(values)
    best = order.index(max(values, key=values.__getitem__))
    if len(order) < 2 or 0 < best < len(order) - 1:
        return None
    inner = order[1] if best == 0 else order[-2]
    return float(f"{order[best] * order[best] / inner:.6g}")
