"""A word to guess, from a list of ours: after each guess the policy hears for each letter whether
it is right.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from swarm_node.scoring.bound import WHITE, longest
from swarm_node.scoring.contract import Step, Turn
from swarm_node.scoring.playing import use

WORDS = tuple(Path(__file__).with_name("words.txt").read_text(encoding="ascii").split())
SHOWN = {"easy": 3, "hard": 1}  # config id -> words that the prompt compares with the hidden one
TOLD = (
    "Guess my word of 5 letters in 6 guesses. Of each letter you hear: + in its place, ? "
    "elsewhere, - not in it."
)


def compared(guess: str, word: str) -> str:
    """A mark for each letter: `+` in its place; `?` elsewhere in the word, as often as it is left
    there; else `-`.
    """
    pairs, marks = list(zip(guess, word, strict=True)), ""
    left = Counter(hidden for one, hidden in pairs if one != hidden)
    for one, hidden in pairs:
        if one == hidden:
            marks += "+"
            continue
        marks += "?" if left[one] > 0 else "-"
        left[one] -= 1
    return marks


@dataclass
class Wordle:
    """A guess is any five letters. A turn of another form uses up a guess, too."""

    answer: str
    shown: tuple[str, ...]
    left: int = 6
    found: bool = False

    def __post_init__(self) -> None:
        self.prompt = "\n".join(
            [TOLD, *(f"{each}: {compared(each, self.answer)}" for each in self.shown)]
        )
        self.known: set[int] = set()  # places of the answer whose letter a guess has shown
        for guess in self.shown:
            self.known |= {place for place in range(5) if guess[place] == self.answer[place]}
        self.given = len(self.known)
        self.longest = longest(self.answer)

    def step(self, turn: Turn) -> Step:
        guess = turn.text.strip(WHITE).lower() if turn.text.isascii() else ""
        self.left -= 1
        self.found = guess == self.answer
        marks = compared(guess, self.answer) if re.fullmatch("[a-z]{5}", guess) else ""
        self.known |= {found.start() for found in re.finditer(r"\+", marks)}
        if self.found or not self.left:
            return Step((), done=True)
        if turn.calls:
            return Step(tuple(use({}, call) for call in turn.calls))
        return Step((marks or "only a word of 5 letters",))

    def score(self) -> float:
        """1 for the word; else up to a half, for letters that were found in their places."""
        return 1.0 if self.found else (len(self.known) - self.given) / 10


def hidden_word(config_id: str, rng: Random) -> Wordle:
    """A word, and others that the prompt compares with it."""
    word, *others = rng.sample(WORDS, 1 + SHOWN[config_id])
    return Wordle(word, tuple(others))
