"""Rounds that an asynchronous node has generated and not trained on, as text for a checkpoint."""

import json
from typing import Any

from pydantic import TypeAdapter

from swarm_node.common.parsing import parse_json
from swarm_node.rollouts.groups import Generated

_GENERATED: TypeAdapter[Generated] = TypeAdapter(Generated)


def write_waiting(generated: Generated) -> str:
    """A generated round as JSON."""
    return _GENERATED.dump_json(generated).decode()


def read_waiting(text: str) -> Generated:
    """The inverse of `write_waiting`; also takes what version 0.1 wrote. ValueError."""
    try:
        written = parse_json(text)
        for name in ("groups", "answers"):
            written[name] = [
                _with_samples(group) if "group" in group else group for group in written[name]
            ]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no generated round: {error!r}") from error
    return _GENERATED.validate_json(json.dumps(written))


def _with_samples(group: dict[str, Any]) -> dict[str, Any]:
    """A group of version 0.1, with a list for each property of its samples, in today's form."""
    message, count = group["group"], len(group["rewards"])
    columns = {
        "episode": message["episodes"],
        "reward": group["rewards"],
        "tokens": group["tokens"] or [None] * count,
        "observations": group["observations"] or [[]] * count,
    }
    rows = zip(*columns.values(), strict=True)
    return {
        "author": message["author"],
        "round": message["round"],
        "question": message["question"],
        "samples": [dict(zip(columns, row, strict=True)) for row in rows],
        "prompt": group["prompt"],
        "prompt_ids": group["prompt_ids"],
    }
