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
READ = 1024  # characters of a text that are looked at, at either end: peers choose how long it is
HELD_OWN, HELD_HEARD = 256, 64  # texts remembered; the newest
OWN_A_ROUND = 8  # own texts to remember of each: the memory is long, so that an infection is not soon its own measure
AT_LEAST = 16  # texts of others before anything is said of them
SPREAD = 0.5  # share of the data sets heard of that a string must be met in

_DIGITS = re.compile(r"\d")


def strings_of(text: str) -> frozenset[str]:
    """All strings of 1 to 4 characters in `text`, any digit written as 0; of a long text, of its ends."""
    parts = [text] if len(text) <= 2 * READ else [text[:READ], text[-READ:]]
    folded = [_DIGITS.sub("0", part) for part in parts]
    return frozenset(
        part[i : i + n] for part in folded for n in range(1, LONGEST + 1) for i in range(len(part) + 1 - n)
    )


class _Window:
    """The newest (topic, text) pairs, and in how many of them each string is, kept up to date."""

    def __init__(self, size: int) -> None:
        self.entries: deque[tuple[str, str]] = deque()
        self._size = size
        self._counts: Counter[str] = Counter()
        self._topics: dict[str, Counter[str]] = {}

    def add(self, topic: str, text: str) -> None:
        self.entries.append((topic, text))
        self._count(topic, text, 1)
        if len(self.entries) > self._size:
            self._count(*self.entries.popleft(), -1)

    def _count(self, topic: str, text: str, step: int) -> None:
        for counts in (self._counts, self._topics.setdefault(topic, Counter())):
            for string in strings_of(text):
                counts[string] += step
                if not counts[string]:
                    del counts[string]

    def share(self, string: str) -> float:
        return self._counts[string] / len(self.entries)

    def spread(self, string: str) -> float:
        """Share of the topics that the string was met in."""
        topics = [counts for counts in self._topics.values() if counts]
        return sum(string in counts for counts in topics) / len(topics)

    def in_at_least(self, share: float) -> list[str]:
        return [string for string, count in self._counts.items() if count >= share * len(self.entries)]


class EnrichmentAlarm:
    """Remembers texts, one of every foreign group, over rounds; bounded."""

    def __init__(self, share: float, factor: float) -> None:
        """A string is alarming in at least `share` of others' texts, and `factor` times as often as in own ones."""
        self._share, self._factor = share, factor
        self._own, self._heard = _Window(HELD_OWN), _Window(HELD_HEARD)

    def note(self, own: Iterable[str], heard: Iterable[tuple[str, str]]) -> None:
        """`own` texts, and (data set, text) of others."""
        for text in own:
            self._own.add("", text)
        for topic, text in heard:
            self._heard.add(topic, text)

    def strings(self) -> frozenset[str]:
        """Those that are alarming now."""
        own, heard = self._own, self._heard
        if len(heard.entries) < AT_LEAST or not own.entries:
            return frozenset()
        return frozenset(
            string
            for string in heard.in_at_least(self._share)
            if heard.share(string) >= self._factor * own.share(string) and heard.spread(string) >= SPREAD
        )

    def snapshot(self) -> dict[str, list[str]]:
        """Plain data for a checkpoint."""
        windows = {"own": self._own, "heard": self._heard}
        return {name: [f"{topic} {text}" for topic, text in window.entries] for name, window in windows.items()}

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        """The inverse of `snapshot`."""
        self._own, self._heard = _Window(HELD_OWN), _Window(HELD_HEARD)
        for name, window in (("own", self._own), ("heard", self._heard)):
            for entry in snapshot[name]:
                topic, text = entry.split(" ", 1)
                window.add(topic, text)
