"""Environments as TRL's own examples write them: a counter, a word to guess; and some that no peer can play again."""

import random
import socket
import time


class Counter:
    rows = tuple({"prompt": [{"role": "user", "content": f"Count to {n}."}], "target": n} for n in range(2, 40))

    def reset(self, target: int, **kwargs: object) -> None:
        self._target, self._count = target, 0

    def increment(self, step: int) -> int:
        """
        Add to the counter.

        Args:
            step: how much
        """
        if step < 1:
            raise ValueError("only upwards")
        self._count += step
        return self._count

    def get_reward(self) -> float:
        return float(self._count == self._target)


class Guessing:
    def __init__(self) -> None:
        self.reward, self.done = 0.0, False

    def reset(self, **kwargs: object) -> str:
        self.reward, self.done, self._word = 0.0, False, random.choice(["apple", "grape", "lemon"])
        return f"Guess a fruit of {len(self._word)} letters."

    def guess(self, word: str) -> str:
        """Make a guess."""
        if self.done:
            raise ValueError("Game over.")
        self.reward, self.done = float(word == self._word), word == self._word
        return "Right." if self.done else f"Wrong, and {random.random():.3f} is a number."


class Fetching(Guessing):
    def guess(self, word: str) -> str:
        """Ask a server."""
        return str(socket.create_connection(("localhost", 1)))


class Clock(Guessing):
    def guess(self, word: str) -> str:
        """Tell the time."""
        return str(time.perf_counter_ns())


class Waiting(Guessing):
    async def wait(self) -> None:
        """Wait."""


class Silent:
    def reset(self) -> None:
        """No reward."""

    def look(self) -> str:
        """See nothing."""
        return ""
