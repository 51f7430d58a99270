"""Published puzzles: reads a prompt into a setting, clues and questions, so that it can be solved.

The wording is that of the published Temporal Clue puzzles (OpenPipe, MIT licence). A sentence that does not fit is
an error that quotes it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

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


def read_choices(prompt: str) -> list[tuple[str, ...]]:
    """The lists of suspects, weapons, rooms, times and motives. Raises NotUnderstood."""
    setting = _setting(prompt)
    return [setting.suspects, setting.weapons, setting.rooms, setting.times, setting.motives]


def read_options(prompt: str, solution: Mapping[str, str]) -> tuple[str, ...]:
    """Names that an answer may be: those that the prompt lists; the right ones if its wording is not the published
    one."""
    try:
        return tuple(name for names in read_choices(prompt) for name in names)
    except NotUnderstood:
        return tuple(dict.fromkeys(solution.values()))


class Reader:
    """Sentences to clues and questions to answers, within one setting."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._rooms = {name: k for k, name in enumerate(setting.rooms)}
        self._times = {name: k for k, name in enumerate(setting.times)}
        self._motives = {name: k for k, name in enumerate(setting.motives)}
        self._terms: dict[str, c.Term] = {"the murderer": c.Murderer(), "the murder weapon": c.MurderWeapon()}
        for piece, name in enumerate((*setting.suspects, VICTIM)):
            self._terms[name.lower()] = c.Named(piece)
        for piece, name in zip(setting.weapon_pieces, setting.weapons, strict=True):
            self._terms[f"the {name}".lower()] = c.Named(piece)
        for motive, name in enumerate(setting.motives):
            for article in ("a", "the"):
                self._terms[f"{article} suspect motivated by {name}".lower()] = c.Motivated(motive)

    def clue(self, sentence: str) -> c.Clue:
        """Raises NotUnderstood."""
        for pattern, make in PATTERNS.items():
            if match := re.fullmatch(pattern, sentence):
                try:
                    return make(self, **match.groupdict())
                except KeyError:  # an unknown name: this pattern fits by accident
                    continue
        raise NotUnderstood(f"not understood: {sentence!r}")

    def term(self, text: str) -> c.Term:
        """Whom or what these words name. KeyError if they name nothing."""
        return self._terms[text.lower()]

    def at(self, who: str, room: str, time: str | None = None) -> c.At:
        """The clue that somebody was in a room."""
        return c.At(self.term(who), self._rooms[room], self._time(time))

    def same(self, who: str, other: str, time: str | None = None) -> c.Clue:
        """The clue that two were in the same room."""
        return c.Same(self.term(who), self.term(other), self._time(time))

    def beside(self, who: str, direction: str, other: str, time: str | None = None) -> c.Clue:
        """The clue that one was in the room on this side of another's."""
        return c.Beside(self.term(who), direction, self.term(other), self._time(time))

    def together(self, who: str, other: str, room: str) -> c.Clue:
        """The clue that two were in this room together."""
        return c.Together(self.term(who), self.term(other), self._rooms[room])

    def moved(self, who: str, begin: str, end: str, time: str, weapon: str | None = None) -> c.Clue:
        """The clue that somebody went from a room to another, perhaps with a weapon."""
        carried = None if weapon is None else self.term(weapon)
        return c.Moved(self.term(who), self._rooms[begin], self._rooms[end], self._time(time), carried)

    def either(self, one: str, other: str) -> c.Clue:
        """The clue that one of two places is right, not both."""
        return c.Either(self._place(one), self._place(other))

    def equivalent(self, one: str, other: str) -> c.Clue:
        """The clue that both places are right or neither is."""
        return c.Equivalent(self._place(one), self._place(other))

    def has_motive(self, who: str, motive: str) -> c.Clue:
        """The clue that a suspect has a motive."""
        return c.HasMotive(self._setting.suspects.index(who), self._motives[motive])

    def killed_by(self, who: str) -> c.Clue:
        """The clue that names the murderer, or the murderer's motive."""
        match self.term(who):
            case c.Named(piece):
                return c.Solution("murderer", piece)
            case c.Motivated(motive):
                return c.Solution("motive", motive)
            case _:
                raise KeyError(who)

    def killed_with(self, weapon: str) -> c.Clue:
        """The clue that names the weapon."""
        return c.Solution("weapon", self._setting.weapon_pieces[self._setting.weapons.index(weapon)])

    def killed_in(self, room: str) -> c.Clue:
        """The clue that names the room of the murder."""
        return c.Solution("room", self._rooms[room])

    def killed_at(self, time: str) -> c.Clue:
        """The clue that names the time of the murder."""
        return c.Solution("time", self._time(time))

    def answer(self, question: str, world: World) -> str:
        """The right answer in this world. Raises NotUnderstood."""
        setting, solution = self._setting, c.solution_of(world)
        if question in PARTS:
            return part_name(setting, PARTS[question], solution[PARTS[question]])
        if match := re.fullmatch(r"What motivates (.+)\?", question):
            return setting.motives[world.motives[setting.suspects.index(match[1])]]
        if match := re.fullmatch(r"Who is motivated by (.+)\?", question):
            return setting.suspects[world.motives.index(self._motives[match[1]])]
        if match := re.fullmatch(r"Where was (.+?)(?: at (\d\d:\d\d [AP]M))?\?", question):
            (piece,) = c.meant(self.term(match[1]), world)
            return setting.rooms[world.paths[piece][self._time(match[2])]]
        raise NotUnderstood(f"not understood: {question!r}")

    def _place(self, sentence: str) -> c.At:
        clue = self.clue(sentence)
        if not isinstance(clue, c.At):
            raise KeyError(sentence)
        return clue

    def _time(self, name: str | None) -> int:
        return 0 if name is None and len(self._times) == 1 else self._times[name or ""]


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
    r"(?P<one>.+) if and only if (?P<other>.+)": Reader.equivalent,
    r"(?P<one>.+) or (?P<other>.+)": Reader.either,
    rf"{_DIED} by (?P<who>.+)": Reader.killed_by,
    rf"{_DIED} with the (?P<weapon>.+)": Reader.killed_with,
    rf"{_DIED} (?:in|at) the (?P<room>.+)": Reader.killed_in,
    rf"{_DIED} at (?P<time>.+)": Reader.killed_at,
    r"(?P<who>.+) is motivated by (?P<motive>.+)": Reader.has_motive,
    rf"(?P<who>.+) was in the same room as (?P<other>.+?){_AT}": Reader.same,
    rf"(?P<who>.+) was in the room just (?P<direction>{'|'.join(DIRECTIONS)}) of (?P<other>.+?){_AT}": Reader.beside,
    rf"(?P<who>.+) was (?:in|at) the (?P<room>.+?){_AT}": Reader.at,
    r"(?P<who>.+) and (?P<other>.+) were (?:in|at) the (?P<room>.+) together at least once": Reader.together,
    r"(?P<who>.+) moved from the (?P<begin>.+) to the (?P<end>.+) at (?P<time>.+)": Reader.moved,
    r"(?P<who>.+) moved (?P<weapon>.+) from the (?P<begin>.+) to the (?P<end>.+) at (?P<time>.+)": Reader.moved,
}
