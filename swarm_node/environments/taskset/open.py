"""Scores a task set that is trained on alone, outside the sandbox: `python -m ...taskset.open
FILE`. Not for people.

This process has the user's network, files and environment variables except secrets
(`common/children.py`), and sees only completions of this node. It talks to the node as a scoring
process does (`scoring/server.py`).
"""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from swarm_node.environments.taskset import library
from swarm_node.environments.taskset.source import TasksetSource
from swarm_node.scoring import contract
from swarm_node.scoring.confinement import silence
from swarm_node.scoring.contract import Reader, encode, is_score
from swarm_node.scoring.server import Reply, asked_of, skipped, texts_of


def main() -> None:
    """Scores until the node closes its end."""
    connection = socket.socket(fileno=os.dup(0))
    source = TasksetSource(sys.argv[1])
    silence()
    reader = Reader(connection.recv)
    connection.sendall(encode({"version": source.version, "layers": {}}))
    with asyncio.Runner() as runner:
        while (asked := reader.read()) is not None:
            for *address, said in asked:
                item = source.build(*address)
                given = asked_of(said)
                reply: Reply
                if given is None:
                    reply = item.prompt
                elif (texts := texts_of(given)) is None:
                    reply = skipped(contract.AFTER_THE_END)
                else:
                    reply = runner.run(_scores(item.task, item.prompt, texts))
                connection.sendall(encode(reply))


async def _scores(task: Any, prompt: str, texts: Sequence[str]) -> Reply:
    try:
        scores = await asyncio.gather(*(library.scored(task, prompt, text) for text in texts))
    except Exception:  # noqa: BLE001  an unreachable model, or a mistake: the group is skipped
        return skipped(contract.SCORER_RAISED)
    return list(scores) if all(map(is_score, scores)) else skipped(contract.NOT_A_SCORE)


if __name__ == "__main__":
    main()
