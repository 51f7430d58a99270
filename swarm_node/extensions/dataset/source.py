"""The questions of a file as a source (`scoring/contract.py`). Runs in the scoring process only."""

import hashlib
import json
from math import gcd
from pathlib import Path
from typing import Any

from swarm_node.extensions.dataset import verifiers
from swarm_node.extensions.dataset.questions import HELD_OUT


class FileItem:
    """One question of the file, scored by the verifier."""

    def __init__(self, prompt: str, answer: Any, verify: verifiers.Verifier) -> None:
        self.prompt, self.answer = prompt, verifiers.text_of(answer)
        self._key, self._verify = answer, verify

    def score(self, text: str) -> float:
        return self._verify(text, self._key)


class DatasetSource:
    """The questions of a file that `compile.py` wrote."""

    def __init__(self, file: str) -> None:
        written = json.loads(Path(file).read_bytes())
        self.version: str = written["version"]
        self._rows: dict[str, list[tuple[str, Any]]] = written["rows"]
        self._verify = verifiers.load(written["verifier"])

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> FileItem:
        """The question at an address. KeyError for an unknown side, ZeroDivisionError for one
        without questions.
        """
        rows = self._rows[config_id]
        return FileItem(*rows[place(config_id, seed, index, len(rows))], self._verify)


def place(config_id: str, seed: int, index: int, count: int) -> int:
    """Which of `count` questions an address names. A round asks none twice while there are enough.
    Held-out questions come in order, 256 per seed, so that each has its turn.
    """
    if config_id == HELD_OUT:
        return (seed * 256 + index) % count
    number = int.from_bytes(hashlib.sha256(f"dataset/{seed}".encode()).digest(), "big")
    return (number + index * _step(number >> 64, count)) % count


def _step(number: int, count: int) -> int:
    """A step coprime to `count`, so that such steps visit each place once."""
    step = number % count or 1
    while gcd(step, count) != 1:
        step += 1
    return step
