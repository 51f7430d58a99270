"""The judge process: rebuilds questions and scores answers, away from the node's memory, keys and torch.

Started by `judge_client.py` as `python -s -P -B -m swarm_node.environment.judge SOURCE LIFELINE MEMORY TIME` with a
clean environment, PYTHONHASHSEED=0 and a socket as standard input. It answers one frame per item, in order, so that the
node knows which item it was at when it hung or died. It is not a sandbox: see confinement.py for what is missing.

Frames in:  [[dataset, config id, seed, index, null or [text, ...]], ...]   null asks for the prompt
Frames out: first {"version": ...}, then per item "prompt", [score, ...] or {"skipped": reason}
"""

import gc
import importlib
import importlib.util
import math
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, cast

from swarm_node.environment import judging
from swarm_node.environment.confinement import allow_cpu, confine, die_with, silence
from swarm_node.environment.frames import Reader, encode
from swarm_node.environment.judging import Item, Source
from swarm_node.environment.lru import Lru

KEPT_ITEMS = 512  # questions kept built: prompts are asked first, scores a little later

Address = tuple[str, str, int, int]
Reply = str | list[float] | dict[str, str]


def main() -> None:
    source_name, lifeline, memory, time_limit = sys.argv[1:]
    die_with(int(lifeline))
    connection = socket.socket(fileno=os.dup(0))
    confine(int(memory))
    allow_cpu(60)  # for imports
    source = load(source_name)
    silence()  # only now: until here the node reads standard error, to tell the user what is missing
    gc.collect()
    gc.freeze()  # the library's 100,000 objects need no further look
    connection.sendall(encode({"version": source.VERSION}))
    serve(connection, source, float(time_limit))


def load(name: str) -> Source:
    """A source module by its dotted name, or by its file when the name ends in .py."""
    if not name.endswith(".py"):
        return cast(Source, importlib.import_module(name))
    spec = importlib.util.spec_from_file_location("judge_source", name)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return cast(Source, module)


def serve(connection: socket.socket, source: Source, time_limit: float) -> None:
    """Answer batches until the node closes its end. A child per batch instead of this loop is where a sandbox fits."""
    reader = Reader(connection)
    kept: Lru[Address, Item] = Lru(KEPT_ITEMS)
    while (batch := reader.read()) is not None:
        for dataset, config_id, seed, index, texts in batch:
            allow_cpu(time_limit)
            connection.sendall(encode(reply(source, kept, (dataset, config_id, seed, index), texts)))


def reply(source: Source, kept: Lru[Address, Item], address: Address, texts: Sequence[str] | None) -> Reply:
    """One item, whatever it raises: a scorer may even raise SystemExit."""
    item = kept.get(address)
    if item is None:
        began = time.process_time()  # CPU, not wall: a busy machine must not change which questions exist
        try:
            item = source.build(*address)
        except BaseException:  # noqa: BLE001
            return {"skipped": judging.BROKEN_QUESTION}
        if time.process_time() - began > judging.QUESTION_BUDGET:
            return {"skipped": judging.SLOW_QUESTION}
        kept.put(address, item)
    if texts is None:
        return str(item.prompt)
    try:
        scores = [item.score(text) for text in texts]
    except BaseException:  # noqa: BLE001
        return {"skipped": judging.SCORER_RAISED}
    if not all(is_score(score) for score in scores):
        return {"skipped": judging.NOT_A_SCORE}
    return [float(score) for score in scores]


def is_score(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0.0 <= value <= 1.0


if __name__ == "__main__":
    main()
