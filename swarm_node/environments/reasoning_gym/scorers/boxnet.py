"""Scorer of boxnet, in which agents bring boxes to their targets: plans are carried out one by one.

An action that cannot be carried out makes the answer a wrong one: it could say anything.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from swarm_node.environments.reasoning_gym.scorers.moves import walk
from swarm_node.environments.reasoning_gym.scorers.reading import Unreadable, bounded_json

Entry = Mapping[str, Any]
Squares = dict[str, list[str]]  # "row_column" -> boxes and targets, sorted
Plan = list[tuple[re.Match[str], re.Match[str]]]  # agents and their actions
_AT = r"\[(\d{1,3}\.\d),\s?(\d{1,3}\.\d)\]"
_AGENT = re.compile(rf"(?:agent)?\s?{_AT}", re.IGNORECASE)
_SQUARE = re.compile(rf"move\((box_\w{{1,30}}),\s?square{_AT}\)")
_TARGET = re.compile(r"move\((box_(\w{1,30})),\s?target_\2\)")


def boxnet(answer: str, entry: Entry) -> float:
    """1.0 if every box reaches its target, else the share of those that do."""
    squares = {name: sorted(things) for name, things in entry["metadata"]["initial_state"].items()}
    boxes, left = _boxes(squares), _boxes(walk(squares, _plans(answer), _carry_out))
    return (boxes - left) / boxes


def written(answer: str, entry: Entry) -> str:
    """The plans that an answer is, as JSON."""
    return json.dumps([{_plain(agent): _plain(action) for agent, action in plan} for plan in _plans(answer)])


def _plain(match: re.Match[str]) -> str:
    return re.sub(r",\s?", ", ", match[0])


def _plans(text: str) -> list[Plan]:
    return [
        [(_matched(agent, _AGENT), _matched(action, _SQUARE, _TARGET)) for agent, action in plan.items()]
        for plan in bounded_json(text)
    ]


def _matched(text: str, *patterns: re.Pattern[str]) -> re.Match[str]:
    for pattern in patterns:
        if match := pattern.fullmatch(text):
            return match
    raise Unreadable("no agent, or no action")


def _carry_out(squares: Squares, plan: Plan) -> Squares:
    """The squares after what all agents do. Unreadable or ValueError where one cannot do so."""
    after = {name: [*things] for name, things in squares.items()}
    for agent, action in plan:
        here, (box, *to) = agent.groups(), action.groups()
        things = after[_square(*here)]
        if action.re is _TARGET:
            things.remove(f"target_{to[0]}")
        elif sorted(abs(float(one) - float(other)) for one, other in zip(here, to, strict=True)) == [0, 1]:
            after[_square(*to)] = sorted([*after[_square(*to)], box])
        else:
            raise Unreadable("no neighbour")
        things.remove(box)
    return after


def _square(row: str, column: str) -> str:
    return f"{float(row)}_{float(column)}"


def _boxes(squares: Squares) -> int:
    return sum(thing.startswith("box_") for things in squares.values() for thing in things)
