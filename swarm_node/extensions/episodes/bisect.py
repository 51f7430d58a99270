"""Guess a number: after each guess the policy hears `higher` or `lower`."""

from dataclasses import dataclass
from random import Random

from swarm_node.scoring.contract import Step, Turn
from swarm_node.scoring.tools import use

GUESSES = {"tiny": 3, "easy": 4, "hard": 6}  # config id -> as many as halving needs among 2 ** guesses - 1 numbers


@dataclass
class Bisect:
    """One number, and what is known of it."""

    low: int
    high: int
    number: int
    left: int  # guesses
    found: bool = False

    def __post_init__(self) -> None:
        self.prompt = f"Guess my number from {self.low} to {self.high} in {self.left} guesses."
        self.size = self.high - self.low

    def step(self, turn: Turn) -> Step:
        guess = int(text) if (text := turn.text.strip()).isascii() and text.isdigit() and len(text) < 4 else None
        self.left -= 1
        self.found = guess == self.number
        if self.found or not self.left:
            return Step((), done=True)
        if turn.calls:
            return Step(tuple(use({}, call) for call in turn.calls))
        if guess is None:
            return Step(("only a number",))
        if guess < self.number:
            self.low = max(self.low, guess + 1)
            return Step(("higher",))
        self.high = min(self.high, guess - 1)
        return Step(("lower",))

    def score(self) -> float:
        """Up to a half for numbers that are ruled out."""
        return 1.0 if self.found else (1 - (self.high - self.low) / self.size) / 2


def draw(config_id: str, rng: Random) -> Bisect:
    """KeyError for an unknown configuration."""
    guesses = GUESSES[config_id]
    low = rng.randint(1, 199)
    high = low + 2**guesses - 2
    return Bisect(low, high, rng.randint(low, high), guesses)
