from random import Random

from swarm_node.scoring.contract import Call, Step, Turn
from swarm_node.scoring.playing import use


class Hidden:
    prompt = "apple, bread or chair? The tool first says how it begins."
    said = ""

    def __init__(self, word: str) -> None:
        self.word = word

    def step(self, turn: Turn) -> Step:
        if turn.calls:
            return Step(tuple(use({"first": lambda: self.word[0]}, call) for call in turn.calls))
        self.said = turn.text.strip()
        return Step((), done=True)

    def score(self) -> float:
        return float(self.said == self.word)


class HiddenWord:
    name, version, tasks, turns = "hidden_word", "1", {"hidden": ("short",)}, 4
    probe = (Turn("", (Call("first", "{}"),)), Turn("apple"))

    def begin(self, dataset: str, config_id: str, seed: int, index: int) -> Hidden:
        return Hidden(Random(f"{seed}/{index}").choice(["apple", "bread", "chair"]))
