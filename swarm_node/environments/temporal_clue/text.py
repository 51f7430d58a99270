"""A puzzle in plain English, and generated puzzles as a source of questions for a scoring process
(`scoring/contract.py`)."""

from string import ascii_uppercase

from swarm_node.environments.temporal_clue import clues as c
from swarm_node.environments.temporal_clue.generate import Asked, Puzzle, Where, answer, generate
from swarm_node.environments.temporal_clue.puzzle_file import PuzzleItem
from swarm_node.environments.temporal_clue.sizes import VERSION
from swarm_node.environments.temporal_clue.worlds import Setting, part_name

version = VERSION
VICTIM = "Victor"
PARTS = {
    "murderer": "Who was the murderer?",
    "weapon": "What was the weapon?",
    "room": "In which room did it happen?",
    "time": "When did it happen?",
    "motive": "What was the motive?",
}

TOLD = {
    "murderer": "the murderer was",
    "weapon": "the murder weapon was the",
    "room": "the murder happened in the",
    "time": "the murder happened at",
    "motive": "the motive of the murderer was",
}


def build(dataset: str, config_id: str, seed: int, index: int) -> PuzzleItem:
    """The puzzle at this address. Raises KeyError for an unknown config id."""
    puzzle = generate(config_id, seed, index)
    return PuzzleItem(prompt(puzzle), key(puzzle), puzzle.setting.names)


def prompt(puzzle: Puzzle) -> str:
    """The text of a puzzle: all that is needed to solve it, and how to answer."""
    setting = puzzle.setting
    say = Sentences(setting)
    questions = "\n".join(
        f"{letter}. {say.question(asked)}"
        for letter, asked in zip(ascii_uppercase, puzzle.questions, strict=False)
    )
    clues = "\n".join(f"- {say.clue(clue)}" for clue in puzzle.clues)
    return f"{_opening(setting)}\n\nClues:\n{clues}\n\nQuestions:\n{questions}\n\n{ANSWER_FORMAT}"


ANSWER_FORMAT = "Answer each question on a line of its own: its letter, a full stop, and the name."


def key(puzzle: Puzzle) -> dict[str, str]:
    """Letter -> right answer."""
    right = (answer(asked, puzzle.setting, puzzle.world) for asked in puzzle.questions)
    return dict(zip(ascii_uppercase, right, strict=False))


def _opening(setting: Setting) -> str:
    starts = range(0, len(setting.rooms), setting.columns)
    rows = [setting.rooms[start : start + setting.columns] for start in starts]
    rooms = "\n".join(" | ".join(row) for row in rows)
    parts = [
        f"{VICTIM} was murdered in one of these rooms (a map, north is up):",
        rooms,
        f"Suspects: {', '.join(setting.suspects)}. Weapons: {', '.join(setting.weapons)}.",
        "The murderer, the weapon and the victim were in one room, and no other suspect was there.",
    ]
    if len(setting.times) > 1:
        parts += [
            f"Times: {', '.join(setting.times)}. From one time to the next everybody stayed or "
            "walked to the room just north, south, east or west, "
            "and a weapon moved only when a suspect walked with it. "
            "The victim stayed where it was killed."
        ]
    if setting.motives:
        counted = zip(setting.motives, setting.motive_counts, strict=True)
        parts.append(
            "Motives of the suspects: "
            + ", ".join(f"{name} ({count})" for name, count in counted)
            + "."
        )
    return "\n".join(parts)


class Sentences:
    """Clues and questions as sentences, within one setting."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def clue(self, clue: c.Clue) -> str:
        """The clue as a sentence."""
        text = self._text(clue)
        return f"{text[0].upper()}{text[1:]}."

    def question(self, asked: Asked) -> str:
        """What is asked, as a sentence."""
        if isinstance(asked, Where):
            return f"Where was {self._term(asked.who)}{self._when(asked.time)}?"
        return PARTS[asked]

    def _text(self, clue: c.Clue) -> str:  # noqa: PLR0911  (a case per kind of clue)
        setting, term, when = self._setting, self._term, self._when
        rooms = setting.rooms
        match clue:
            case c.At(who, room, time):
                return f"{term(who)} was in the {rooms[room]}{when(time)}"
            case c.Same(who, other, time):
                return f"{term(who)} was in the same room as {term(other)}{when(time)}"
            case c.Beside(who, direction, other, time):
                return f"{term(who)} was one room {direction} of {term(other)}{when(time)}"
            case c.Together(who, other, room):
                return (
                    f"{term(who)} and {term(other)} were in the {rooms[room]} at the same time "
                    "at least once"
                )
            case c.Moved(who, begin, end, time, weapon):
                taken = "walked" if weapon is None else f"carried {term(weapon)}"
                moment = f"between {setting.times[time - 1]} and {setting.times[time]}"
                return f"{term(who)} {taken} from the {rooms[begin]} to the {rooms[end]} {moment}"
            case c.Either(left, right):
                return f"either {self._text(left)} or {self._text(right)}, but not both"
            case c.Equivalent(left, right):
                return f"{self._text(left)} if and only if {self._text(right)}"
            case c.HasMotive(suspect, motive):
                return f"the motive of {setting.suspects[suspect]} was {setting.motives[motive]}"
            case c.Solution(part, value):
                return f"{TOLD[part]} {part_name(setting, part, value)}"

    def _term(self, term: c.Term) -> str:
        setting = self._setting
        match term:
            case c.Murderer():
                return "the murderer"
            case c.MurderWeapon():
                return "the murder weapon"
            case c.Motivated(motive):
                article = "the" if setting.motive_counts[motive] == 1 else "a"
                return f"{article} suspect with the motive {setting.motives[motive]}"
            case c.Named(piece):
                if piece < setting.victim:
                    return setting.suspects[piece]
                return (
                    VICTIM
                    if piece == setting.victim
                    else f"the {setting.weapons[piece - setting.victim - 1]}"
                )

    def _when(self, time: int) -> str:
        return f" at {self._setting.times[time]}" if len(self._setting.times) > 1 else ""
