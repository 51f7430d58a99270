"""How an episode answers calls of its tools: in the same words on every machine, whatever a model wrote."""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from swarm_node.scoring.contract import Call

MOST_BRACKETS = 64  # of arguments: versions of Python differ in how deep they read


class ToolError(Exception):
    """Why a tool has no result: the policy reads it."""


def use(tools: Mapping[str, Callable[..., object]], call: Call) -> str:
    """What a tool returns, as text, or `error: ...` for what a model may do wrong: a tool that is not offered,
    arguments that are no JSON or not its own, or whatever the tool raises as ToolError."""
    try:
        if call.name not in tools:
            raise ToolError(f"no tool {call.name}, but {', '.join(tools) or 'none'}")
        return str(_bound(tools[call.name], _read(call.arguments))())
    except ToolError as error:
        return f"error: {error}"


def _read(arguments: str) -> dict[str, Any]:
    try:
        if sum(map(arguments.count, "[{")) > MOST_BRACKETS:
            raise ValueError
        found = json.loads(arguments, parse_constant=_no_number)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ToolError("arguments are a JSON object")
    return found


def _no_number(name: str) -> None:
    raise ValueError(name)


def _bound(tool: Callable[..., object], arguments: Mapping[str, Any]) -> Callable[[], object]:
    signature = inspect.signature(tool)
    try:
        bound = signature.bind(**arguments)
    except TypeError as error:
        raise ToolError(f"arguments are {', '.join(signature.parameters) or 'none'}") from error
    return lambda: tool(*bound.args, **bound.kwargs)
