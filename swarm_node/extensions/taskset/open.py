"""Scores outside the sandbox, of a task set that is trained on alone: `python -m ...taskset.open FILE`. Not for people.

It has the user's network, files and environment variables, as verifiers itself would, and sees only completions of this
node. Frames in: [question, [text, ...]]; frames out: [score, ...], or {} where the reward raised.
"""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from swarm_node.extensions.dataset.source import place
from swarm_node.extensions.taskset import library
from swarm_node.scoring.frames import Reader, encode


def main() -> None:
    """Until the node hangs up."""
    connection = socket.socket(fileno=os.dup(0))
    written = json.loads(Path(sys.argv[1]).read_bytes())
    found = library.Library(written["name"], written["options"])
    reader = Reader(connection.recv)
    with asyncio.Runner() as runner:
        while (asked := reader.read()) is not None:
            (config_id, seed, index), texts = asked
            rows = written["rows"][config_id]
            prompt, data = rows[place(config_id, seed, index, len(rows))]
            if texts is None:
                connection.sendall(encode(prompt))
                continue
            connection.sendall(encode(runner.run(_scores(found.rebuilt(data), prompt, texts))))


async def _scores(task: Any, prompt: str, texts: list[str]) -> list[float] | dict[str, Any]:
    try:
        return list(await asyncio.gather(*(library.scored(task, prompt, text) for text in texts)))
    except Exception as error:  # noqa: BLE001  a model that is away, a mistake: the group is skipped
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return {}


if __name__ == "__main__":
    main()
