"""Questions of `episodes` for a scoring process: a number or a word to guess, and arithmetic with a
tool.

A hash of its text says whether a question is held out. An address draws until it has a question of
its own side.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from protocol.addressing import is_held_out, is_held_out_text
from swarm_node.environments.episodes.calculator import calculate
from swarm_node.environments.episodes.wordle import SHOWN, Wordle, hidden_word
from swarm_node.scoring.bound import WHITE, longest, number_of, same_number
from swarm_node.scoring.contract import Call, Step, Turn
from swarm_node.scoring.playing import use

version = "2"
turns = 6
# Config id -> guesses: what halving needs among 2 ** guesses - 1 numbers
GUESSES = {"tiny": 3, "easy": 4, "hard": 6}
# Config id -> the largest first number; starters say small ones
FIRST = {"tiny": 20, "easy": 199, "hard": 199}
CALCULATIONS = 4  # turns, the answer included
# Config id -> how many operators, the largest number
SUMS = {"easy": (2, 99), "hard": (3, 999), "strict": (2, 99)}
TOOL = 'Calculate by <call>{"name": "calculate", "arguments": {"expression": "1 + 2"}}</call>.'
tasks = {"bisect": tuple(GUESSES), "calculator": tuple(SUMS), "wordle": tuple(SHOWN)}
probe = (
    Turn(
        "",
        (
            Call("calculate", '{"expression": "-2 * (3 - 0.5) / 7"}'),
            Call("calculate", "{}"),
            Call("x", "1"),
        ),
    ),
    Turn("text", (Call("calculate", '{"expression": "1"}'),)),
    Turn("", (Call("calculate", '{"expression": "1 / (2 - 2)"}'),)),
    Turn("100"),
    Turn("seven"),
    Turn(" 7\n"),
)


@dataclass
class Bisect:
    """A number to guess: after each guess the policy hears `higher` or `lower`."""

    low: int
    high: int
    answer: str
    left: int  # guesses
    found: bool = False

    def __post_init__(self) -> None:
        self.prompt = f"Guess my number from {self.low} to {self.high} in {self.left} guesses."
        self.size, self.number = self.high - self.low, int(self.answer)
        self.longest = longest(self.answer)

    def step(self, turn: Turn) -> Step:
        guess = _whole(turn.text.strip(WHITE))
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
        """1 for the number; else up to a half, for the share of numbers that are ruled out."""
        return 1.0 if self.found else (1 - (self.high - self.low) / self.size) / 2


@dataclass
class Sum:
    """Arithmetic: calls of the tool, and then the answer as a turn without calls."""

    asked: str
    answer: str
    strict: bool = False
    left: int = CALCULATIONS
    said: str | None = None

    def __post_init__(self) -> None:
        self.prompt = f"{self.asked} = ? {TOOL} Then give only the number."
        self.longest = longest(self.answer)

    def step(self, turn: Turn) -> Step:
        self.left -= 1
        if not turn.calls:
            self.said = turn.text if self.strict else turn.text.strip(WHITE)
        if self.said is not None or not self.left:
            return Step((), done=True)
        return Step(tuple(use({"calculate": calculate}, call) for call in turn.calls))

    def score(self) -> float:
        said = self.said or ""
        return float(said == self.answer or same_number(said, self.answer))


def _whole(text: str) -> int | None:
    """The number that a guess says; None where it says no whole number of three digits at most."""
    if text.isascii() and text.isdigit():
        return int(text) if len(text) < 4 else None
    value = number_of(text)
    return int(value) if value is not None and value in range(1000) else None


def _number(config_id: str, rng: Random) -> Bisect:
    guesses, low = GUESSES[config_id], rng.randint(1, FIRST[config_id])
    high = low + 2**guesses - 2
    return Bisect(low, high, str(rng.randint(low, high)), guesses)


def _sum(config_id: str, rng: Random) -> Sum:
    count, largest = SUMS[config_id]
    text = str(rng.randint(2, largest))
    for _ in range(count):
        text += f" {rng.choice('+-*')} {rng.randint(2, largest)}"
    return Sum(text, calculate(text), config_id == "strict")


Asked = Bisect | Sum | Wordle
_DRAWS: Mapping[str, Callable[[str, Random], Asked]] = {
    "bisect": _number,
    "calculator": _sum,
    "wordle": hidden_word,
}


def begin(dataset: str, config_id: str, seed: int, index: int) -> Asked:
    """The question at this address. Raises KeyError for an unknown data set."""
    rng, held_out = Random(f"{dataset}/{config_id}/{seed}/{index}"), is_held_out(seed)
    while True:
        episode = _DRAWS[dataset](config_id, rng)
        if is_held_out_text(episode.prompt) == held_out:
            return episode
