"""reasoning-gym as a source of questions. Runs in the scoring process only: importing it costs 60
MB and a second.

The library is not deterministic by itself: two datasets depend on process-wide state (the decimal
context, the global random stream) that others change. So each question is built from the same
state. Our own scorers score completions. starter.py makes the smallest tasks without the library.
"""

import decimal
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version as installed
from types import ModuleType
from typing import Any

from protocol.limits import MAX_QUESTIONS_PER_ROUND
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE, LIBRARY, VERSION
from swarm_node.environments.reasoning_gym.drawing import NoQuestion, first_on_its_side
from swarm_node.environments.reasoning_gym.scorers.scorers import SCORERS, score_with

PLOTTING = (
    "matplotlib",
    "matplotlib.animation",
    "matplotlib.collections",
    "matplotlib.pyplot",
    "mpl_toolkits.mplot3d",
)


def _library() -> Any:
    """reasoning_gym, without the 30 MB of matplotlib that cellpylib imports for plots: nobody asks
    for one.
    """
    empty: dict[str, Any] = {
        name: ModuleType(name) for name in PLOTTING if "matplotlib" not in sys.modules
    }
    for module in empty.values():
        module.Axes3D = None  # which is imported by its name
    sys.modules.update(empty)
    import reasoning_gym

    for name in empty:
        del sys.modules[name]
    return reasoning_gym


version = VERSION
reasoning_gym = _library()


class LibraryItem:
    """One question of the library, and what a scorer of ours needs to know to score completions of
    it.
    """

    def __init__(self, name: str, config: Mapping[str, Any], seed: int, index: int) -> None:
        with _same_state():
            self.dataset = reasoning_gym.create_dataset(
                name, seed=seed, size=MAX_QUESTIONS_PER_ROUND, **config
            )
            entry = self.dataset[index]
        # base_conversion writes 0 as an empty text: no completion could be right
        if entry["answer"] == "":
            raise NoQuestion(name)
        self.prompt: str = entry["question"]
        self.answer = str(entry["answer"])
        self.entry: Mapping[str, Any] = entry
        self.portable = (
            name,
            {"answer": entry["answer"], "metadata": _facts(name, self.dataset, entry["metadata"])},
        )

    def score(self, text: str) -> float:
        name, entry = self.portable
        return score_with(name, entry, text)


def _facts(name: str, dataset: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of the metadata and of the data set's configuration that its scorer reads."""
    scorer = SCORERS[name]
    facts = {key: metadata[key] for key in scorer.needs if key in metadata}
    facts |= {key: getattr(dataset.config, key) for key in scorer.settings}
    return facts


def build(dataset: str, config_id: str, seed: int, index: int) -> LibraryItem:
    """The question at this address. It takes only names from the catalogue: parameters from outside
    are an attack (10^7 terms, a path of a file).
    """
    config = CATALOGUE[dataset][config_id]
    return first_on_its_side(
        dataset, config_id, seed, index, lambda drawn: LibraryItem(dataset, config, drawn, index)
    )


@contextmanager
def _same_state() -> Iterator[None]:
    random.seed(0)
    with decimal.localcontext(decimal.Context()):
        yield


assert installed("reasoning-gym") == LIBRARY, (
    "another version of reasoning-gym is installed than the catalogue is of"
)
assert set(CATALOGUE) <= set(reasoning_gym.factory.DATASETS), (
    "the catalogue names a dataset that reasoning-gym lacks"
)
assert set(CATALOGUE) <= set(SCORERS), "the catalogue names a dataset without a scorer of ours"
