"""Write a word backwards."""

from random import Random

TASKS = {"words": {"short": 2, "long": 6}}  # data set -> config id -> letters of a word: parameters never travel


class Item:
    """One question with its reference answer."""

    def __init__(self, word: str) -> None:
        self.prompt = f"Write {word} backwards."
        self._answer = word[::-1]

    def score(self, text: str) -> float:
        """The share of letters that are right, in [0, 1]. `text` is a stranger's: compare it, never run it."""
        given = text.strip()
        right = sum(one == other for one, other in zip(given, self._answer, strict=False))
        return right / max(len(given), len(self._answer))


class WordReversal:
    name = "word_reversal"  # what its questions carry
    version = "1"  # change it whenever a question or a score changes
    tasks = TASKS

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> Item:
        """The same question for the same address, in every process and on every machine."""
        random = Random(f"{dataset}/{config_id}/{seed}/{index}")
        return Item("".join(random.choices("0123456789", k=TASKS[dataset][config_id])))
