"""The enrichment alarm: signs that better-scored text of others has in common, and this node's own text does not.

A right answer differs from question to question; a payload is the same everywhere. So the alarm looks for strings of up
to four characters that stand in many of the better completions of others, to questions of many data sets, and in few of
its own. Digits count as one sign, since answers differ in them; one data set alone proves nothing, since its answers
may all have a minus sign. What it cannot do: tell a payload from a useful habit of others (a tag, a turn of phrase),
see one that is rarer than its threshold, or one that is put on the answers to one data set only.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping

LONGEST = 4  # characters of a string that is looked for
HELD_OWN, HELD_HEARD = 256, 64  # texts remembered; the newest
OWN_A_ROUND = 8  # own texts remembered of each: the memory is long, so that an infection is not soon its own measure
SPREAD = 0.5  # share of the data sets heard of that a string must be met in
AT_LEAST = 16  # texts of others before anything is said of them

_DIGITS = re.compile(r"\d")


def strings_of(text: str) -> frozenset[str]:
    """All strings of 1 to 4 characters in `text`, any digit written as 0."""
    folded = _DIGITS.sub("0", text)
    return frozenset(folded[i : i + n] for n in range(1, LONGEST + 1) for i in range(len(folded) - n + 1))


class EnrichmentAlarm:
    """Remembers texts, one of every foreign group, over rounds; bounded."""

    def __init__(self, share: float, factor: float) -> None:
        """A string is alarming in at least `share` of others' texts, and `factor` times as often as in own ones."""
        self._share, self._factor = share, factor
        self._own: deque[str] = deque(maxlen=HELD_OWN)
        self._heard: deque[tuple[str, str]] = deque(maxlen=HELD_HEARD)

    def note(self, own: Iterable[str], heard: Iterable[tuple[str, str]]) -> None:
        """`own` texts, and (data set, text) of others."""
        self._own.extend(own)
        self._heard.extend(heard)

    def strings(self) -> frozenset[str]:
        """Those that are alarming now."""
        if len(self._heard) < AT_LEAST or not self._own:
            return frozenset()
        heard, own = _shares(text for _, text in self._heard), _shares(self._own)
        spread = _spread(self._heard)
        return frozenset(
            string
            for string, share in heard.items()
            if share >= max(self._share, self._factor * own.get(string, 0.0)) and spread[string] >= SPREAD
        )

    def snapshot(self) -> dict[str, list[str]]:
        """Plain data for a checkpoint."""
        return {"own": list(self._own), "heard": [f"{topic} {text}" for topic, text in self._heard]}

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        """The inverse of `snapshot`."""
        self._own.clear()
        self._heard.clear()
        pairs = (entry.split(" ", 1) for entry in snapshot["heard"])
        self.note(snapshot["own"], [(topic, text) for topic, text in pairs])


def _shares(texts: Iterable[str]) -> dict[str, float]:
    """String -> share of the texts that have it."""
    several = [strings_of(text) for text in texts]
    counts = Counter(string for strings in several for string in strings)
    return {string: count / len(several) for string, count in counts.items()}


def _spread(heard: Iterable[tuple[str, str]]) -> dict[str, float]:
    """String -> share of the data sets it was met in."""
    met: dict[str, set[str]] = {}
    for topic, text in heard:
        met.setdefault(topic, set()).update(strings_of(text))
    counts = Counter(string for strings in met.values() for string in strings)
    return {string: count / len(met) for string, count in counts.items()}
