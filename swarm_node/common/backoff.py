"""How long to wait before another try: twice as long with every failure, up to a bound. No clock in
here.
"""

from random import Random

_MOST_DOUBLINGS = 64  # more than any bound needs; a float overflows after a thousand


def backoff(failures: int, first: float, longest: float) -> float:
    """Seconds to wait: `first`, doubled `failures` times, but at most `longest`."""
    return min(first * 2.0 ** min(failures, _MOST_DOUBLINGS), longest)


def jittered(seconds: float, random: Random) -> float:
    """Between half and all of `seconds`, so that peers that failed together do not return
    together.
    """
    return seconds * random.uniform(0.5, 1.0)
