"""The judge process: rebuilds questions and has answers scored, away from the node's memory, keys and torch.

Started by `judge_client.py` as `python -s -P -B -m swarm_node.environment.judge SOURCE LIFELINE MEMORY TIME` with a
clean environment, PYTHONHASHSEED=0 and a socket as standard input. Texts of others pass through it unread: they are
scored in children (`children.py`), one for each author, forked from here where the scorer is the library's and from the
light process (`light.py`) where it is our own. One reply per item, in order.

Frames in:  [[dataset, config id, seed, index, null or [text, ...]], ...]   null asks for the prompt
Frames out: first {"version": ..., "layers": {...}}, then per item "prompt", [score, ...] or {"skipped": reason}
"""

import gc
import importlib
import importlib.util
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import cast

from swarm_node.environment import children, judging
from swarm_node.environment.confinement import OutOfTime, allow_cpu, confine, cpu_budget, die_with, silence
from swarm_node.environment.frames import Reader, encode
from swarm_node.environment.judging import Item, Portable, Source
from swarm_node.environment.light import LightProcess
from swarm_node.environment.lru import Lru
from swarm_node.environment.sandbox import Sandbox

KEPT_ITEMS = 512  # questions kept built: prompts are asked first, scores a little later

Address = tuple[str, str, int, int]
Asked = tuple[Address, Sequence[str] | None]
Reply = str | list[float] | dict[str, str]


def main() -> None:
    source_name, lifeline, memory, time_limit = sys.argv[1:]
    die_with(int(lifeline))
    confine(int(memory))
    allow_cpu(60)  # for imports
    sandbox = Sandbox()
    light = LightProcess(sandbox, float(time_limit), int(lifeline))  # now: the library makes a process heavy to fork
    connection = socket.socket(fileno=os.dup(0))
    source = load(source_name)
    silence()  # only now: until here the node reads standard error, to tell the user what is missing
    gc.collect()
    gc.freeze()  # the library's 100,000 objects need no further look, which would copy them into every child
    connection.sendall(encode({"version": source.VERSION, "layers": sandbox.layers}))
    Judge(source, sandbox, light, float(time_limit)).serve(connection)


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


class Judge:
    def __init__(self, source: Source, sandbox: Sandbox, light: LightProcess, time_limit: float) -> None:
        self._source, self._sandbox, self._light, self._time_limit = source, sandbox, light, time_limit
        self._kept: Lru[Address, Item] = Lru(KEPT_ITEMS)

    def serve(self, connection: socket.socket) -> None:
        """Answer batches until the node closes its end."""
        reader = Reader(connection.recv)
        while (batch := reader.read()) is not None:
            for asked in runs([((dataset, config_id, seed, k), texts) for dataset, config_id, seed, k, texts in batch]):
                allow_cpu(judging.CHILD_ITEMS)
                connection.sendall(b"".join(map(encode, self.replies(asked))))

    def replies(self, asked: Sequence[Asked]) -> list[Reply]:
        """To items of one author."""
        built = [self._build(address) for address, _ in asked]
        pairs = [(item, texts) for item, (_, texts) in zip(built, asked, strict=True)]
        work = [(item, texts) for item, texts in pairs if not isinstance(item, str) and texts is not None]
        verdicts = iter(self._verdicts(work))
        return [
            skipped(item) if isinstance(item, str) else str(item.prompt) if texts is None else spoken(next(verdicts))
            for item, texts in pairs
        ]

    def _verdicts(self, work: Sequence[children.Work]) -> list[children.Verdict]:
        """In order, from two processes."""
        portable = [item.portable if isinstance(item, Portable) else None for item, _ in work]
        light = [(each, texts) for each, (_, texts) in zip(portable, work, strict=True) if each is not None]
        heavy = [pair for each, pair in zip(portable, work, strict=True) if each is None]
        from_light = iter(self._light.score(light))
        from_here = iter(children.score(heavy, self._sandbox, self._time_limit))
        return [next(from_here) if each is None else next(from_light) for each in portable]

    def _build(self, address: Address) -> Item | str:
        """The question, or why there is none. Made of names of ours and a number: no text of others."""
        item = self._kept.get(address)
        if item is None:
            try:
                with cpu_budget(judging.QUESTION_BUDGET):
                    item = self._source.build(*address)
            except OutOfTime:
                return judging.SLOW_QUESTION
            except BaseException:  # noqa: BLE001
                return judging.BROKEN_QUESTION
            self._kept.put(address, item)
        return item


def runs(batch: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
    """What may share a child: neighbours with one seed, which is a digest of author and round that admission checks."""
    begin = 0
    for end in range(1, len(batch) + 1):
        if end == len(batch) or end - begin == judging.CHILD_ITEMS or batch[end][0][2] != batch[begin][0][2]:
            yield batch[begin:end]
            begin = end


def spoken(verdict: children.Verdict) -> Reply:
    return skipped(verdict) if isinstance(verdict, str) else verdict


def skipped(reason: str) -> Reply:
    return {"skipped": reason}


if __name__ == "__main__":
    main()
