"""How long to leave alone what failed: twice as long with every failure, up to a bound. No clock in here."""

from random import Random

_MOST_DOUBLINGS = 64  # more than any bound needs; after a thousand a float would overflow


def backoff(failures: int, first: float, longest: float) -> float:
    """Seconds to wait: `first`, doubled `failures` times, but at most `longest`."""
    return min(first * 2.0 ** min(failures, _MOST_DOUBLINGS), longest)


def jittered(seconds: float, random: Random) -> float:
    """Between half of it and all of it, so that those who failed together do not come back together."""
    return seconds * random.uniform(0.5, 1.0)
