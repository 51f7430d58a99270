"""Environments as TRL's own examples write them: a counter, a word to guess; and some that no peer
can play again.
"""

import random
import socket
import time


class Counter:
    rows = tuple(
        {"prompt": [{"role": "user", "content": f"Count to {n}."}], "target": n}
        for n in range(2, 40)
    )

    def reset(self, target: int, **kwargs: object) -> None:
        self._target, self._count = target, 0

    def increment(self, step: int) -> int:
        """Add to the counter."""
        if step < 1:
            raise ValueError("only upwards")
        self._count += step
        return self._count

    def get_reward(self) -> float:
        return float(self._count == self._target)


class Guessing:
    def reset(self, **kwargs: object) -> str:
        self.reward, self._word = 0.0, random.choice(["apple", "grape", "lemon"])
        return "Guess a fruit."

    def guess(self, word: str) -> str:
        if self.reward:
            raise ValueError("Game over.")
        self.reward = float(word == self._word)
        return f"Right: {word}" if self.reward else f"Wrong, and {random.random():.3f} is a number."


class Fetching(Guessing):
    def fetch(self) -> str:
        return str(socket.create_connection(("localhost", 1)))


class Clock(Guessing):
    def read(self) -> str:
        return str(time.perf_counter_ns())


class Waiting(Guessing):
    async def wait(self) -> None: ...
