"""Scorer of boxnet, in which agents bring boxes to their targets: plans are carried out one by one.

An action that cannot be carried out makes the answer a wrong one: it could say anything.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from swarm_node.environments.reasoning_gym.scorers.reading import Unreadable, Visited, bounded_json

Entry = Mapping[str, Any]
Agent = tuple[str, str, str]  # what it is called, row, column, as they were written
Action = tuple[str, str | tuple[str, str]]  # the box, and its target or the row and the column of a square
_AGENT = re.compile(r"((?:agent)?\s?)\[(\d{1,3}\.\d),\s?(\d{1,3}\.\d)\]", re.IGNORECASE)
_SQUARE = re.compile(r"move\((box_\w{1,30}),\s?square\[(\d{1,3}\.\d),\s?(\d{1,3}\.\d)\]\)")
_TARGET = re.compile(r"move\(box_(\w{1,30}),\s?target_(\w{1,30})\)")


def boxnet(answer: str, entry: Entry) -> float:
    """1.0 if every box reaches its target, else the share of those that do."""
    squares = {name: sorted(things) for name, things in entry["metadata"]["initial_state"].items()}
    boxes, visited = _boxes(squares), Visited(squares)
    for plan in _plans(answer):
        for agent, action in plan:
            _act(squares, agent, action)
        visited.enter(squares)
    return (boxes - _boxes(squares)) / boxes


def written(answer: str, entry: Entry) -> str:
    """The plans that an answer is, as JSON."""
    return json.dumps([{_agent_written(agent): _action_written(to) for agent, to in plan} for plan in _plans(answer)])


def _agent_written(agent: Agent) -> str:
    return f"{agent[0]}[{agent[1]}, {agent[2]}]"


def _action_written(action: Action) -> str:
    box, to = action
    return f"move({box}, {to if isinstance(to, str) else f'square[{to[0]}, {to[1]}]'})"


def _plans(text: str) -> list[list[tuple[Agent, Action]]]:
    """What each agent does, plan by plan. Unreadable where one is no plan."""
    return [[(_agent(agent), _action(action)) for agent, action in plan.items()] for plan in bounded_json(text)]


def _agent(text: str) -> Agent:
    match = _AGENT.fullmatch(text)
    if match is None:
        raise Unreadable("no agent")
    return match[1], match[2], match[3]


def _action(text: str) -> Action:
    onward, home = _SQUARE.fullmatch(text), _TARGET.fullmatch(text)
    if home is not None:
        return f"box_{home[1]}", f"target_{home[2]}"
    if onward is None:
        raise Unreadable("no action")
    return onward[1], (onward[2], onward[3])


def _act(squares: dict[str, list[str]], agent: Agent, action: Action) -> None:
    """What one agent does. Unreadable where it cannot do so."""
    (box, to), here = action, agent[1:]
    things = squares[_square(here)]
    if isinstance(to, str):
        if to.removeprefix("target_") != box.removeprefix("box_"):
            raise Unreadable("another box's target")
        things.remove(to)
    else:
        if sorted(abs(float(one) - float(other)) for one, other in zip(here, to, strict=True)) != [0, 1]:
            raise Unreadable("no neighbour")
        squares[_square(to)].append(box)
        squares[_square(to)].sort()
    things.remove(box)


def _square(at: Sequence[str]) -> str:
    return "_".join(str(float(part)) for part in at)


def _boxes(squares: Mapping[str, list[str]]) -> int:
    return sum(thing.startswith("box_") for things in squares.values() for thing in things)
