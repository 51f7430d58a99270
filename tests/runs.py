"""Records as a node writes them, made by hand for tests of their readers."""

import json
from pathlib import Path
from typing import Any

from swarm_node.rollouts.groups import METRICS, PHASES


def line(record: dict[str, Any]) -> str:
    return json.dumps(record) + "\n"


def round_done(number: int, **fields: Any) -> dict[str, Any]:
    """A RoundDone event with a report in which every figure has a value."""
    figures: dict[str, Any] = dict.fromkeys(METRICS, 1)
    report = {
        **figures,
        "peer_id": "12D3KooWLocal",
        "round": number,
        "reward": 0.25,
        "reward_by_task": {"gcd/easy": 0.25, "lcm/easy": 0.5},
        "skipped": {"prompt too long": 1},
        "rejected": {},
        "step": {**figures, "skipped": {}},
        "seconds": dict.fromkeys(PHASES, 0.5),
        "overlap": None,
        "external_by_peer": {},
    }
    return {"time": 1.8e9 + number, "event": "RoundDone", "report": report | fields, "peers": 2}


def sampled(task: str, number: int = 0) -> dict[str, Any]:
    """A line of rollouts.jsonl."""
    completion = {
        "text": "6",
        "reward": 1.0,
        "advantage": 0.5,
        "ended": True,
        "turns": [{"own": True, "text": "6"}],
    }
    about = {
        "time": 1.8e9,
        "round": number,
        "author": "12D3KooWPeer",
        "local": True,
        "trained": False,
        "why": "",
    }
    return {
        **about,
        "task": task,
        "prompt": "12 and 18?",
        "left_out": 0,
        "completions": [completion],
    }


def home_with(folder: Path, rounds: int) -> Path:
    """A home in which so many rounds were done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "events.jsonl").open("w") as file:
        file.write(
            line(
                {
                    "time": 1.8e9,
                    "event": "RunStarted",
                    "title": "node",
                    "folder": "",
                    "facts": {"model": "m"},
                }
            )
        )
        for number in range(rounds):
            file.write(line(round_done(number)))
    return folder
