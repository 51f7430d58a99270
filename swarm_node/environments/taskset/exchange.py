"""An episode of a task set: its tools answer calls, and its environment speaks between turns.

verifiers runs an episode as a coroutine of the task set's environment, which asks an agent for one
turn after another; behind the agent stand a model, a harness and servers for the tools. Here the
same coroutine runs, and the agent is a `Seat`: it waits until `Dialogue.take` hands it the turn
that the policy wrote. So nothing of an episode but its turns comes from outside, and whoever has
the turns can play the episode again.

    take(turn) ----> calls? ----yes----> tools ---------------------------> observations
                        |
                        no
                        v
                     Seat ---> the environment's coroutine ---asks on---> its words: an observation
                                          |
                                          +------------ends-------------> the reward

Calls do not reach the environment: they are a matter between the policy and its tools, as in
verifiers. The messages of all of them make the trace that the task's rewards read.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

import verifiers.v1 as vf

from swarm_node.environments.taskset import library
from swarm_node.environments.taskset.library import Library, Prepared
from swarm_node.environments.taskset.quiet import QuietLoop
from swarm_node.scoring import bound
from swarm_node.scoring.contract import Step, Turn
from swarm_node.scoring.playing import use

# The frame in which many task sets want an answer: it does not count as a part of it
FRAME = len("<answer></answer>")


class Seat:
    """The one agent of an environment: it waits for turns of the policy."""

    trainable = True  # as environments may set it

    def __init__(self, dialogue: "Dialogue") -> None:
        self._dialogue = dialogue

    async def run(self, task: vf.Task, **_: Any) -> vf.Trace:
        """A run of one turn, with the calls before it."""
        async with self.interaction(task) as talk:
            await talk.turn()
        return talk.trace

    @asynccontextmanager
    async def interaction(self, task: vf.Task, **_: Any) -> "AsyncIterator[Interaction]":
        """A run of several turns. At its end the task scores it."""
        talk = Interaction(self._dialogue, task)
        yield talk
        await self._dialogue.end()


class Interaction:
    """A run that its environment holds open turn by turn: `vf.Interaction`."""

    def __init__(self, dialogue: "Dialogue", task: vf.Task) -> None:
        self._dialogue = dialogue
        self._opened = task.data.prompt is None
        dialogue.begin(task)

    @property
    def trace(self) -> vf.Trace:
        """What was said so far."""
        return self._dialogue.trace

    async def turn(self, message: str | Sequence[Any] | None = None) -> vf.Segment:
        """Says something to the policy, if anything, and returns its next turn."""
        if (message is None) is self._opened:
            raise RuntimeError("the task opens the exchange, or else a message does")
        self._opened = True
        if isinstance(message, str):
            self._dialogue.hear([vf.UserMessage(content=message)])
        else:
            self._dialogue.hear(list(message or ()))
        before = len(self.trace.nodes)
        await self._dialogue.answered()
        said = [node.message for node in self.trace.nodes[before:]]
        return vf.Segment(messages=said)


class Dialogue:
    """One episode while it is played. It never leaves the process in which it began."""

    def __init__(self, task_set: Library, task: vf.Task, prepared: Prepared) -> None:
        self._task, self._prepared, self._task_set = task, prepared, task_set
        self.trace = task_set.trace(task, prepared)
        self._runtime = library.runtime_for(prepared)
        self._tools = task_set.tools(self.trace.state, task.data)
        self._heard: list[str] = []  # what the environment said since the last turn
        self._scored = False
        self._runs = 0
        self._loop = QuietLoop()
        self._asked: asyncio.Future[None] = self._loop.create_future()
        self._turn: asyncio.Future[None] = self._loop.create_future()
        self._playing = self._loop.create_task(self._play_to_the_end())

    def opening(self) -> str:
        """What the policy reads before its first turn, without the tools; "" where no text says
        it.
        """
        self._go_on()
        return "" if not all(self._heard) else "\n\n".join(self._heard)

    def take(self, turn: Turn) -> Step:
        """Hands on the next turn of the policy."""
        if not turn.calls:
            library.add(self.trace, vf.AssistantMessage(content=turn.text), sampled=True)
            self._heard = []
            self._turn.set_result(None)
            self._go_on()
            done = self._playing.done()
            return Step((), True) if done else Step(("\n\n".join(self._heard),))
        calls = [
            vf.ToolCall(id=f"call_{number}", name=call.name, arguments=call.arguments)
            for number, call in enumerate(turn.calls)
        ]
        asking = vf.AssistantMessage(content=turn.text, tool_calls=calls)
        library.add(self.trace, asking, sampled=True)
        results = [use(self._tools, call) for call in turn.calls]
        for number, result in enumerate(results):
            answer = vf.ToolMessage(tool_call_id=f"call_{number}", content=result)
            library.add(self.trace, answer)
        return Step(tuple(results))

    def score(self) -> float:
        """The reward of the exchange as it is: also where the policy stopped amid it."""
        if not self._scored:
            self._loop.run_until_complete(self.end())
        return float(self.trace.reward)

    def close(self) -> None:
        """Ends the coroutine of the environment where it still waits."""
        self._playing.cancel()
        self._loop.run_until_complete(asyncio.wait({self._playing}))
        if not self._playing.cancelled():
            self._playing.exception()  # it is known, or nobody asks for it
        self._loop.close()

    # What the seat does, for the coroutine of the environment

    def begin(self, task: vf.Task) -> None:
        """Begins the one run of the episode, of this task."""
        self._runs += 1
        if self._runs > 1:
            raise RuntimeError("the environment runs its agent more than once")
        self._task = task
        if task.data.system_prompt:
            self.hear([vf.SystemMessage(content=task.data.system_prompt)])
        if isinstance(task.data.prompt, str):
            self.hear([vf.UserMessage(content=task.data.prompt)])
        else:
            self.hear(list(task.data.prompt or ()))

    def hear(self, messages: Sequence[Any]) -> None:
        """Says these messages to the policy."""
        for message in messages:
            typed = vf.UserMessage.model_validate(message) if isinstance(message, dict) else message
            library.add(self.trace, typed)
            self._heard.append(library.text_of(typed))

    async def answered(self) -> None:
        """Waits for the next turn of the policy that has no calls."""
        self._turn = self._loop.create_future()
        self._asked.set_result(None)
        await self._turn

    async def end(self) -> None:
        """Lets the task score the run."""
        if not self._scored:
            self._scored = True
            await library.finish(self._task, self.trace, self._runtime)

    async def _play_to_the_end(self) -> None:
        seat, environment = Seat(self), self._task_set.environment()
        if environment is None:
            await seat.run(self._task)
            return
        agents = vf.Agents(environment.config, lambda name, config: seat)
        await environment.setup(agents)
        await environment.run(self._task, agents)

    def _go_on(self) -> None:
        """Lets the environment go on until it waits for a turn or ends. Raises what it raises."""
        self._asked = self._loop.create_future()
        either = asyncio.wait({self._playing, self._asked}, return_when=asyncio.FIRST_COMPLETED)
        self._loop.run_until_complete(either)
        if self._playing.done():
            self._playing.result()


class TaskEpisode:
    """A task at the beginning of its episode: see `contract.Playable`."""

    def __init__(
        self,
        task_set: Library,
        prompt: str,
        task: vf.Task,
        prepared: Prepared,
        turns: int,
        bounded: bool = True,
    ) -> None:
        """`prompt`: what the policy reads first. `turns`: the largest number of turns in an
        episode. `bounded`: whether a turn that says much more than the answer of the task earns
        nothing.
        """
        self.prompt = prompt
        self._task_set, self._task, self._prepared = task_set, task, prepared
        self._turns, self._bounded = turns, bounded
        self._dialogue: Dialogue | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "TaskEpisode":
        """Another episode of the same task, at its beginning: a coroutine cannot be copied."""
        about = self._task_set, self.prompt, self._task, self._prepared
        return type(self)(*about, self._turns, self._bounded)

    @cached_property
    def longest(self) -> int | None:
        """The most characters of a turn that is paid. None where the task has no `answer`, or where
        its own rewards do not pay who says nothing else.
        """
        answer = getattr(self._task.data, "answer", "")
        text = str(answer) if isinstance(answer, str | int | float) else ""
        if not self._bounded or not text:
            return None
        episode = self.__deepcopy__({})
        score = episode.said_throughout(text)[1]
        return bound.longest(text) + FRAME if score >= bound.RIGHT_FROM else None

    def said_throughout(self, text: str) -> tuple[list[Turn], float]:
        """The turns of an episode in which the policy says only this, and their score."""
        turns: list[Turn] = []
        try:
            done = False
            while not done and len(turns) < self._turns:
                turns.append(Turn(text))
                done = self.step(turns[-1]).done
            return turns, self.score()
        finally:
            self.close()

    def step(self, turn: Turn) -> Step:
        return self._begun().take(turn)

    def score(self) -> float:
        """Runs in a sandboxed child, which has no sockets, threads and timers."""
        return self._begun().score()

    def close(self) -> None:
        """Ends what was begun."""
        if self._dialogue is not None:
            self._dialogue.close()
            self._dialogue = None

    def _begun(self) -> Dialogue:
        if self._dialogue is None:
            self._dialogue = Dialogue(self._task_set, self._task, self._prepared)
            self._dialogue.opening()
        return self._dialogue


def opening_of(task_set: Library, task: vf.Task, prepared: Prepared) -> str:
    """What the policy reads before its first turn, with the tools that it has; "" where no text
    says it.
    """
    if task.data.image:
        return ""
    dialogue = Dialogue(task_set, task, prepared)
    try:
        opening = dialogue.opening()
    finally:
        dialogue.close()
    return "\n\n".join(filter(None, [opening, task_set.told_tools])) if opening else ""
