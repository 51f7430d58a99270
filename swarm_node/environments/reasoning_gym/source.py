"""reasoning-gym as a source of questions. Runs in the scoring process only: importing it costs 80 MB and a second.

Not deterministic by itself: two datasets follow process-wide state (the decimal context, the global random stream)
that others change, so each question is built and scored from the same state.
"""

import decimal
import pickle
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version as installed
from typing import Any

import reasoning_gym
from reasoning_gym.factory import DATASETS

from protocol.limits import MAX_QUESTIONS_PER_ROUND
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.scoring.scorers import NEEDED, SCORERS, answer_of, score

version = installed("reasoning-gym")  # the package's own __version__ lags behind its releases


class NoAnswer(Exception):
    """A question whose key is empty, so that no answer is paid."""


class LibraryItem:
    """One question of the library, with the dataset object that knows how to score it."""

    def __init__(self, name: str, config: Mapping[str, Any], seed: int, index: int) -> None:
        with _same_state(decimal.Context()):
            self._dataset = reasoning_gym.create_dataset(name, seed=seed, size=MAX_QUESTIONS_PER_ROUND, **config)
            entry = self._dataset[index]
            self._decimals = decimal.getcontext().copy()  # decimal_arithmetic scores in the precision it set here
        if entry["answer"] == "":  # base_conversion writes 0 as nothing: no answer would be paid
            raise NoAnswer(name)
        self.prompt: str = entry["question"]
        self._name = name
        self._entry = pickle.dumps(entry)
        self.portable = _portable(name, entry)

    @property
    def entry(self) -> dict[str, Any]:
        """A fresh copy of question, answer and metadata, since some scorers write into theirs."""
        entry: dict[str, Any] = pickle.loads(self._entry)  # noqa: S301  (our own bytes, made above)
        return entry

    def score(self, text: str) -> float:
        with _same_state(self._decimals):
            return score(SCORERS.get(self._name, self._dataset.score_answer), answer_of(text), self.entry)


def _portable(name: str, entry: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """What our own scorer needs to know, where there is one: it can then run without the library."""
    if name not in SCORERS:
        return None
    metadata = {key: entry["metadata"][key] for key in NEEDED.get(name, ())}
    return name, {"answer": entry["answer"], "metadata": metadata}


def build(dataset: str, config_id: str, seed: int, index: int) -> LibraryItem:
    """Only names from the catalogue: parameters from outside are an attack (10^7 terms, a path of a file)."""
    return LibraryItem(dataset, CATALOGUE[dataset][config_id], seed, index)


@contextmanager
def _same_state(decimals: decimal.Context) -> Iterator[None]:
    random.seed(0)
    with decimal.localcontext(decimals):
        yield


assert set(CATALOGUE) <= set(DATASETS), "the catalogue names a dataset this version of reasoning-gym lacks"
