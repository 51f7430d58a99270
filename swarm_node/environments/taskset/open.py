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

from swarm_node.environments.taskset.source import (
    EpisodesSource,
    TaskItem,
    TasksetSource,
    source_of,
)
from swarm_node.scoring import contract, playing
from swarm_node.scoring.children import episodes
from swarm_node.scoring.confinement import silence
from swarm_node.scoring.contract import Reader, encode, is_score
from swarm_node.scoring.server import Reply, asked_of, skipped, texts_of


def main() -> None:
    """Scores until the node closes its end."""
    connection = socket.socket(fileno=os.dup(0))
    source = source_of(sys.argv[1])
    silence()
    reader = Reader(connection.recv)
    connection.sendall(encode({"version": source.version, "layers": {}}))
    while (batch := reader.read()) is not None:
        for *address, said in batch:
            asked = asked_of(said)
            if isinstance(source, EpisodesSource):
                reply = _of_episodes(source, address, asked)
            else:
                reply = _of_texts(source, address, asked)
            connection.sendall(encode(reply))


def _of_texts(source: TasksetSource, address: Sequence[Any], asked: contract.Asked) -> Reply:
    item = source.build(*address)
    if asked is None:
        return item.prompt
    texts = texts_of(asked)
    return skipped(contract.AFTER_THE_END) if texts is None else asyncio.run(_scores(item, texts))


async def _scores(item: TaskItem, texts: Sequence[str]) -> Reply:
    try:
        scores = await asyncio.gather(*map(item.scored, texts))
    except Exception:  # noqa: BLE001  an unreachable model, or a mistake: the group is skipped
        return skipped(contract.SCORER_RAISED)
    return list(scores) if all(map(is_score, scores)) else skipped(contract.NOT_A_SCORE)


def _of_episodes(source: EpisodesSource, address: Sequence[Any], asked: contract.Asked) -> Reply:
    began = source.begin(*address)
    if asked is None:
        return began.prompt
    if not asked or not episodes(asked):
        return skipped(contract.NOT_SHOWN)
    played = playing.read(playing.play(began, asked), asked)
    return skipped(played) if isinstance(played, str) else {"played": played}


if __name__ == "__main__":
    main()
