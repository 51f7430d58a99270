"""A task set with a tool: what a person is known for is only found by looking it up."""

from typing import ClassVar

import verifiers.v1 as vf

__all__ = ["FactsTaskset"]

FACTS = {
    "hedy lamarr": "hopping from frequency to frequency",
    "emmy noether": "a theorem on symmetries",
    "sophie germain": "primes whose double plus one is prime",
    "al-khwarizmi": "a book on restoring and balancing",
}


class Facts(vf.Toolset[vf.ToolsetConfig]):
    """The book in which one looks."""

    TOOL_PREFIX: ClassVar[str] = "book"

    @vf.tool
    def find(self, name: str) -> str:
        """Says what somebody is known for."""
        return FACTS.get(name.strip().lower(), "not in the book")


class FactsData(vf.TaskData):
    """A person with the fact."""

    answer: str


class FactsTask(vf.Task[FactsData]):
    """Right is who says the fact."""

    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [Facts(vf.ToolsetConfig())]

    @vf.reward
    async def told(self, trace: vf.Trace) -> float:
        """1 where the last reply has the fact."""
        return float(self.data.answer in trace.last_reply)


class FactsTaskset(vf.Taskset[FactsTask, vf.TasksetConfig]):
    """A question for each person."""

    def load(self) -> list[FactsTask]:
        return [
            FactsTask(
                FactsData(
                    name=name,
                    prompt=f"Find {name} in the book, and give the fact in <answer></answer>.",
                    answer=fact,
                ),
                self.config.task,
            )
            for name, fact in FACTS.items()
        ]
