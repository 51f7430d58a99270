"""A small task set of verifiers: single-digit sums, differences and products.
docs/how-to/tasksets.md trains on it.

Its prompts are those of the starters, so that a starter gets some right from the first round on.
"""

from collections.abc import Iterator
from operator import add, mul, sub

import verifiers.v1 as vf

__all__ = ["ArithmeticTaskset"]

SAID = {
    "*": (
        mul,
        "Solve the following multiplication: {}. Give only the result as your final answer.",
    ),
    "+": (add, "State the final answer to the following arithmetic problem: {} ="),
    "-": (sub, "State the final answer to the following arithmetic problem: {} ="),
}


class ArithmeticData(vf.TaskData):
    """A question with its reference answer."""

    answer: str


class ArithmeticTask(vf.Task[ArithmeticData]):
    """Scored by the completion alone: no network, no other model, no container."""

    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        """1 if the completion is the answer and nothing else, or else 0."""
        return float(trace.last_reply == self.data.answer)


class ArithmeticConfig(vf.TasksetConfig):
    """The options that `taskset.options` may set."""

    operators: str = "*+-"
    digits: int = 10


class ArithmeticTaskset(vf.Taskset[ArithmeticTask, ArithmeticConfig]):
    """A question for each operator and each pair of numbers below `digits`."""

    def load(self) -> Iterator[ArithmeticTask]:
        for operator in self.config.operators:
            act, said = SAID[operator]
            for one in range(self.config.digits):
                for other in range(self.config.digits):
                    prompt = said.format(f"{one} {operator} {other}")
                    yield ArithmeticTask(
                        ArithmeticData(prompt=prompt, answer=str(act(one, other))), self.config.task
                    )
