"""The enrichment alarm: strings that better external completions have in common and local ones do not.

Right answers differ from question to question; a payload is the same everywhere. So the alarm looks for strings of up
to four characters that are in many of the better external completions, over many data sets, and in few local ones. All
digits count as one sign, since answers differ in them. One data set alone proves nothing: its answers may all have a
minus sign. The alarm cannot tell a payload from a useful habit (a tag, a turn of phrase). It misses payloads that are
rarer than its threshold, or that are put on completions of one data set only.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping

LONGEST = 4  # characters of a string that is looked for
READ = 1024  # characters read at either end of a text: peers choose how long it is
HELD_LOCAL, HELD_EXTERNAL = 256, 64  # newest texts remembered
LOCAL_A_ROUND = 8  # local completions remembered of each round: few, so that the memory spans many rounds and an
# infected node is still compared with completions from before
AT_LEAST = 16  # external completions before any string is suspect
SPREAD = 0.5  # share of the data sets met in which a suspect string must be

_DIGITS = re.compile(r"\d")


def strings_of(text: str) -> frozenset[str]:
    """All strings of 1 to 4 characters in `text`, with every digit as 0. Of a long text only its ends are read."""
    parts = [text] if len(text) <= 2 * READ else [text[:READ], text[-READ:]]
    folded = [_DIGITS.sub("0", part) for part in parts]
    return frozenset(
        part[i : i + n] for part in folded for n in range(1, LONGEST + 1) for i in range(len(part) + 1 - n)
    )


class _Window:
    """The newest (topic, text) pairs, and the number of them that hold each string."""

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
        """Share of the topics in which the string was met."""
        topics = [counts for counts in self._topics.values() if counts]
        return sum(string in counts for counts in topics) / len(topics)

    def in_at_least(self, share: float) -> list[str]:
        return [string for string, count in self._counts.items() if count >= share * len(self.entries)]


class EnrichmentAlarm:
    """Remembers texts, one of every external group, over rounds; bounded."""

    def __init__(self, share: float = 0.15, factor: float = 4.0) -> None:
        """A string is alarming if it is in at least `share` of the external texts, and in `factor` times the share of
        local ones."""
        self._share, self._factor = share, factor
        self._local, self._external = _Window(HELD_LOCAL), _Window(HELD_EXTERNAL)

    def note(self, local: Iterable[str], external: Iterable[tuple[str, str]]) -> None:
        """Remember local texts, and (data set, text) of external ones."""
        for text in local:
            self._local.add("", text)
        for topic, text in external:
            self._external.add(topic, text)

    def strings(self) -> frozenset[str]:
        """The strings that are alarming now."""
        local, external = self._local, self._external
        if len(external.entries) < AT_LEAST or not local.entries:
            return frozenset()
        return frozenset(
            string
            for string in external.in_at_least(self._share)
            if external.share(string) >= self._factor * local.share(string) and external.spread(string) >= SPREAD
        )

    def snapshot(self) -> dict[str, list[str]]:
        """Plain data for a checkpoint."""
        windows = {"local": self._local, "external": self._external}
        return {name: [f"{topic} {text}" for topic, text in window.entries] for name, window in windows.items()}

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        """The inverse of `snapshot`."""
        self._local, self._external = _Window(HELD_LOCAL), _Window(HELD_EXTERNAL)
        for name, window in (("local", self._local), ("external", self._external)):
            for entry in snapshot[name]:
                topic, text = entry.split(" ", 1)
                window.add(topic, text)
