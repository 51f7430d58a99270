"""Published puzzles: reads a prompt into a setting, clues and questions, so that it can be solved.

The wording is that of the published Temporal Clue puzzles (OpenPipe, MIT licence). A sentence that does not fit is
an error that quotes it.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from swarm_node.extensions.temporal_clue import clues as c
from swarm_node.extensions.temporal_clue.worlds import DIRECTIONS, Setting, World, part_name

VICTIM = "Mr. Boddy"


class NotUnderstood(ValueError):
    """A prompt, or a sentence of it, that is not in the published wording."""


@dataclass(frozen=True)
class Riddle:
    """A puzzle as data: setting, clues and questions."""

    setting: Setting
    clues: tuple[c.Clue, ...]
    questions: dict[str, str]  # letter -> question


def read(prompt: str) -> Riddle:
    """Raises NotUnderstood."""
    setting = _setting(prompt)
    told, _, asked = prompt.partition("Please answer the following question")
    reader = Reader(setting)
    clues = tuple(reader.clue(line) for line in re.findall(r"^- (.*)$", told, re.MULTILINE))
    return Riddle(setting, clues, dict(re.findall(r"^([A-Z])\. (.*\?)$", asked, re.MULTILINE)))


def _setting(prompt: str) -> Setting:
    rooms = re.findall(r"^\d+\. (.*)$", prompt.partition("Please answer")[0], re.MULTILINE)
    first_row = re.search(r"^W ([^E\n]*) E$", prompt, re.MULTILINE)
    suspects, weapons = _bullets(prompt, "identified as suspects:"), _bullets(prompt, "found on the premises:")
    if not (rooms and first_row and suspects and weapons):
        raise NotUnderstood("no suspects, weapons, rooms or map")
    motives, counts = [], []
    for line in _bullets(prompt, f"possible motives for killing {VICTIM}:"):
        name, _, count = line.partition(" (")
        motives.append(name)
        counts.append(int(count.split()[0]) if count else 1)
    return Setting(
        suspects,
        weapons,
        tuple(rooms),
        len(first_row[1].split("|")),
        _bullets(prompt, "following times:") or ("",),
        tuple(motives),
        tuple(counts),
    )


def _bullets(prompt: str, after: str) -> tuple[str, ...]:
    _, found, rest = prompt.partition(after + "\n\n")
    block = rest.partition("\n\n")[0] if found else ""
    return tuple(line.removeprefix("• ") for line in block.splitlines())


def read_options(prompt: str, solution: Mapping[str, str]) -> tuple[str, ...]:
    """Names that an answer may be: those that the prompt lists; the right ones if its wording is not the published
    one."""
    try:
        return _setting(prompt).names
    except NotUnderstood:
        return tuple(dict.fromkeys(solution.values()))


class Reader:
    """Sentences to clues and questions to answers, within one setting."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        numbered = {"time": setting.times, "motive": setting.motives}
        numbered |= dict.fromkeys(("room", "begin", "end"), setting.rooms)
        self._numbers = {what: {name: k for k, name in enumerate(names)} for what, names in numbered.items()}
        self._terms: dict[str, c.Term] = {"the murderer": c.Murderer(), "the murder weapon": c.MurderWeapon()}
        weapons = [f"the {name}" for name in setting.weapons]
        for piece, name in enumerate((*setting.suspects, VICTIM, *weapons)):
            self._terms[name.lower()] = c.Named(piece)
        for motive, name in enumerate(setting.motives):
            for article in ("a", "the"):
                self._terms[f"{article} suspect motivated by {name}".lower()] = c.Motivated(motive)

    def clue(self, sentence: str) -> c.Clue:
        """Raises NotUnderstood."""
        for pattern, make in PATTERNS.items():
            if match := re.fullmatch(pattern, sentence):
                with suppress(KeyError):  # an unknown name: this pattern fits by accident
                    return make(**{what: self._read(what, text) for what, text in match.groupdict().items()})
        raise NotUnderstood(f"not understood: {sentence!r}")

    def _read(self, what: str, text: str | None) -> Any:
        """A part of a sentence. KeyError where it names nothing."""
        if what == "time" and text is None and len(self._setting.times) == 1:
            return 0
        said = text or ""
        if what in self._numbers:
            return self._numbers[what][said]
        if what in ("left", "right"):
            return self._place(said)
        return said if what == "direction" else self._terms[said.lower()]

    def _place(self, sentence: str) -> c.At:
        clue = self.clue(sentence)
        if not isinstance(clue, c.At):
            raise KeyError(sentence)
        return clue

    def answer(self, question: str, world: World) -> str:
        """The right answer in this world. Raises NotUnderstood."""
        setting, solution = self._setting, c.solution_of(world)
        if question in PARTS:
            return part_name(setting, PARTS[question], solution[PARTS[question]])
        if match := re.fullmatch(r"What motivates (.+)\?", question):
            return setting.motives[world.motives[setting.suspects.index(match[1])]]
        if match := re.fullmatch(r"Who is motivated by (.+)\?", question):
            return setting.suspects[world.motives.index(self._read("motive", match[1]))]
        if match := re.fullmatch(r"Where was (.+?)(?: at (\d\d:\d\d [AP]M))?\?", question):
            piece = c.meant(self._read("who", match[1]), setting, world)
            room: int = world.paths[piece][self._read("time", match[2])]
            return setting.rooms[room]
        raise NotUnderstood(f"not understood: {question!r}")


def _killed(part: str, who: c.Term) -> c.Clue:
    """The clue that names the murderer, the weapon, or the murderer's motive."""
    match who:
        case c.Named(piece):
            return c.Solution(part, piece)
        case c.Motivated(motive):
            return c.Solution("motive", motive)
    raise KeyError(who)


def _has_motive(who: c.Term, motive: int) -> c.Clue:
    if not isinstance(who, c.Named):
        raise KeyError(who)
    return c.HasMotive(who.piece, motive)


PARTS = {
    f"Who murdered {VICTIM}?": "murderer",
    "What weapon did the murderer use?": "weapon",
    "Where was the murder committed?": "room",
    "When did the murder occur?": "time",
    "Why did the murderer do it?": "motive",
}
_AT = r"(?: at (?P<time>\d\d:\d\d [AP]M))?"
_DIED = f"{re.escape(VICTIM)} was (?:murdered|killed)"
PATTERNS: dict[str, Callable[..., c.Clue]] = {
    r"(?P<left>.+) if and only if (?P<right>.+)": c.Equivalent,
    r"(?P<left>.+) or (?P<right>.+)": c.Either,
    rf"{_DIED} by (?P<who>.+)": partial(_killed, "murderer"),
    rf"{_DIED} with (?P<who>the .+)": partial(_killed, "weapon"),
    rf"{_DIED} (?:in|at) the (?P<room>.+)": lambda room: c.Solution("room", room),
    rf"{_DIED} at (?P<time>.+)": lambda time: c.Solution("time", time),
    r"(?P<who>.+) is motivated by (?P<motive>.+)": _has_motive,
    rf"(?P<who>.+) was in the same room as (?P<other>.+?){_AT}": c.Same,
    rf"(?P<who>.+) was in the room just (?P<direction>{'|'.join(DIRECTIONS)}) of (?P<other>.+?){_AT}": c.Beside,
    rf"(?P<who>.+) was (?:in|at) the (?P<room>.+?){_AT}": c.At,
    r"(?P<who>.+) and (?P<other>.+) were (?:in|at) the (?P<room>.+) together at least once": c.Together,
    r"(?P<who>.+) moved from the (?P<begin>.+) to the (?P<end>.+) at (?P<time>.+)": c.Moved,
    r"(?P<who>.+) moved (?P<weapon>.+) from the (?P<begin>.+) to the (?P<end>.+) at (?P<time>.+)": c.Moved,
}
