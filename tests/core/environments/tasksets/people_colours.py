"""A task set of several turns: a word of colours that comes in pictures, turn by turn."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from PIL import Image
from verifiers.v1.utils.image import image_data_url

__all__ = ["ColoursEnvironment", "ColoursTaskset"]

LETTERS = {"R": (255, 0, 0), "G": (0, 255, 0), "B": (0, 0, 255)}
TURNS = 3


def shown(letter: str, words: str) -> Any:
    """A message with a picture."""
    url = image_data_url(Image.new("RGB", (20, 10), LETTERS[letter]))
    picture = vf.ImageUrlContentPart(image_url=vf.ImageUrlSource(url=url))
    return vf.UserMessage(content=[picture, vf.TextContentPart(text=words)])


class ColoursData(vf.TaskData):
    """A word."""

    answer: str


class ColoursTask(vf.Task[ColoursData]):
    """Right is the whole word in the last turn."""

    @vf.reward
    async def whole(self, trace: vf.Trace) -> float:
        """1 for the word."""
        return float(trace.last_reply == self.data.answer)


class ColoursEnvironment(vf.SingleAgentEnv):
    """Shows the next letter after each reply."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as talk:
            segment = await talk.turn()
            for letter in task.data.answer[1:]:
                if segment.terminated:
                    break
                segment = await talk.turn([shown(letter, "And then?")])


class ColoursTaskset(vf.Taskset[ColoursTask, vf.TasksetConfig]):
    """Words for ever."""

    INFINITE = True

    def load(self) -> Iterator[ColoursTask]:
        chance = random.Random(7)
        for _ in itertools.count():
            word = "".join(chance.choice("RGB") for _ in range(TURNS))
            opening = [shown(word[0], "Say all letters so far: R, G or B.")]
            yield ColoursTask(ColoursData(prompt=opening, answer=word), self.config.task)
