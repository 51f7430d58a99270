"""When a course first reaches a level, and how times compare of which some were never seen to end.

Shared by what measures the price of a level: `lab.benchmarks.minutes` and `lab.studies.sooner`.
"""

import math
from collections.abc import Sequence

Times = Sequence[float | None]


def time_to(
    level: float, spent_until: Sequence[float], accuracies: Sequence[float]
) -> float | None:
    """The price at which accuracy first reaches the level, linear between two evaluations; None if
    it never does. `spent_until`: what was spent until each evaluation, ascending.
    """
    for index, accuracy in enumerate(accuracies):
        if accuracy >= level:
            if index == 0:
                return spent_until[0]
            before, risen = accuracies[index - 1], accuracy - accuracies[index - 1]
            share = (level - before) / risen
            return spent_until[index - 1] + share * (spent_until[index] - spent_until[index - 1])
    return None


def restricted(times: Times, horizon: float) -> list[float]:
    """min(time, horizon) of each run: their mean is the restricted mean time."""
    return [horizon if time is None else min(time, horizon) for time in times]


def known_until(times: Times, ends: Sequence[float]) -> float:
    """The largest price at which it is known of every run whether it had reached the level: where
    the first of those that never reached it ends, or infinity if all did. `ends`: what each run had
    spent when it ended.
    """
    censored = [end for time, end in zip(times, ends, strict=True) if time is None]
    return min(censored, default=math.inf)


def reached(times: Times, horizon: float) -> int:
    """How many runs reached the level within the horizon."""
    return sum(time is not None and time <= horizon for time in times)
