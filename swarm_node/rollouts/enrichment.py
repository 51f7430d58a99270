"""The enrichment alarm: signs that better-scored text of others has in common, and this node's own text does not.

A right answer differs from question to question; a payload is the same everywhere. So the alarm looks for strings of up
to four characters that stand in many of the better completions of others, to different questions, and in few of its
own. Digits count as one sign, since answers differ in them. What it cannot do: tell a payload from a useful habit of
others (a tag, a turn of phrase), and see one that is rarer than its threshold.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

LONGEST = 4  # characters of a string that is looked for
HELD_OWN, HELD_HEARD = 512, 64  # texts remembered; the newest
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
        self._heard: deque[str] = deque(maxlen=HELD_HEARD)

    def note(self, own: Iterable[str], heard: Iterable[str]) -> None:
        self._own.extend(own)
        self._heard.extend(heard)

    def strings(self) -> frozenset[str]:
        """Those that are alarming now."""
        if len(self._heard) < AT_LEAST or not self._own:
            return frozenset()
        heard = _shares(self._heard)
        often = {string: share for string, share in heard.items() if share >= self._share}
        own = _shares(self._own)
        return frozenset(string for string, share in often.items() if share >= self._factor * own.get(string, 0.0))

    def snapshot(self) -> dict[str, list[str]]:
        """Plain data for a checkpoint."""
        return {"own": list(self._own), "heard": list(self._heard)}

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        """The inverse of `snapshot`."""
        self._own.clear()
        self._heard.clear()
        self.note(snapshot["own"], snapshot["heard"])


def _shares(texts: Sequence[str] | deque[str]) -> dict[str, float]:
    """String -> share of the texts that have it."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(strings_of(text))
    return {string: count / len(texts) for string, count in counts.items()}
