"""Questions that are split: peers ask those of `train`, evaluation those of `held_out`. What a data
set and a task set share of it, for each process that reads or asks them.
"""

import hashlib
import json
from math import gcd

TRAIN, HELD_OUT = "train", "held_out"
MAX_PROMPT_CHARS = 16 * 1024
LONG_PROMPT = "prompt above 16 KB"
# Of all prompts, and of all answers: the scoring process holds them in memory
MAX_CHARS = 64 * 1024 * 1024
SEED_QUESTIONS = 256  # held-out questions that one seed names


def share(prompt: str) -> float:
    """A hash of the prompt in [0, 1): the same for prompts that differ in case and white space
    alone.
    """
    plain = " ".join(prompt.casefold().split())
    text = json.dumps(["split", plain], ensure_ascii=False, separators=(",", ":"))
    return int(hashlib.sha256(text.encode()).hexdigest()[:13], 16) / 16**13


def place(config_id: str, seed: int, index: int, count: int) -> int:
    """Which of `count` questions an address names. A round asks none twice while there are enough.
    Held-out questions come in order, 256 per seed, so that each has its turn.
    """
    if config_id == HELD_OUT:
        return (seed * SEED_QUESTIONS + index) % count
    number = int.from_bytes(hashlib.sha256(f"dataset/{seed}".encode()).digest(), "big")
    return (number + index * _step(number >> 64, count)) % count


def _step(number: int, count: int) -> int:
    """A step coprime to `count`, so that such steps visit each place once."""
    step = number % count or 1
    while gcd(step, count) != 1:
        step += 1
    return step
