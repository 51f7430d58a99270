"""The fork server: forked from the scoring process before that imports its library, it scores what needs none of it.

It scores with the module of scorers that the environment named at the start of the scoring process.

A fork costs by the memory a process has: here a fifth of what it costs in the scoring process, where the library takes
100 MB. Like the scoring process it never looks at an answer itself; its children do.
"""

import gc
import os
import select
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from swarm_node.scoring import children
from swarm_node.scoring.children import Child
from swarm_node.scoring.confinement import allow_cpu, silence
from swarm_node.scoring.contract import CHILD_ITEMS, Scorers
from swarm_node.scoring.frames import Reader, encode
from swarm_node.scoring.sandbox import Sandbox
from swarm_node.scoring.seccomp import LAST_WRITABLE

SPARES = 4  # children kept ready, for the calls of about a round

Task = tuple[tuple[str, Mapping[str, Any]], Sequence[str]]  # (name of a scorer, entry), answers


class KeyItem:
    """A question reduced to its key."""

    prompt = ""

    def __init__(self, scorers: Scorers, name: str, entry: Mapping[str, Any]) -> None:
        self._scorers, self._name, self._entry = scorers, name, entry

    def score(self, text: str) -> float:
        return self._scorers.score_with(self._name, self._entry, text)


class ForkServer:
    """The scoring process's end. Lives as long as the scoring process does."""

    def __init__(self, scorers: Scorers, sandbox: Sandbox, time_limit: float, lifeline: int) -> None:
        """`lifeline`: the scoring process's, closed in the new process."""
        self.scorers = scorers
        self._connection, theirs = socket.socketpair()
        if os.fork() == 0:
            try:
                self._connection.close()
                os.close(lifeline)
                sandbox.die_with_parent()
                silence()
                serve(theirs, scorers, sandbox, time_limit)
            finally:
                os._exit(0)
        theirs.close()
        self._reader = Reader(self._connection.recv)

    def score(self, tasks: Sequence[Task]) -> list[children.Verdict]:
        """One verdict per task, all of one cohort. Raises OSError if the process is gone, which ends the scoring."""
        if not tasks:
            return []
        self._connection.sendall(encode(tasks))
        verdicts = self._reader.read()
        if verdicts is None:
            raise OSError("the fork server is gone")
        return cast(list[children.Verdict], verdicts)


def serve(connection: socket.socket, scorers: Scorers, sandbox: Sandbox, time_limit: float) -> None:
    """Score until the scoring process closes its end. While there is nothing to do, children are made ready for what
    comes."""
    gc.collect()
    gc.freeze()
    reader, spares = Reader(connection.recv), deque[Child]()
    read_work = partial(_read_work, scorers)
    while True:
        if not spares:  # then several at once: what this process writes between two forks is copied, page by page
            while len(spares) < SPARES and not select.select([connection], [], [], 0)[0]:
                spares.append(Child(sandbox, time_limit, read_work))
        tasks = reader.read()
        if tasks is None:
            return
        allow_cpu(CHILD_ITEMS)
        verdicts: list[children.Verdict] = []
        while len(verdicts) < len(tasks):
            rest = tasks[len(verdicts) :]
            child = spares.popleft() if spares else Child(sandbox, time_limit, read_work)
            child.send(encode(rest))
            verdicts += child.verdicts([len(texts) for _, texts in rest])
        connection.sendall(encode(verdicts))


def _read_work(scorers: Scorers) -> list[children.Work]:
    """In a child, which has nothing but this descriptor."""
    tasks = Reader(partial(os.read, LAST_WRITABLE)).read()
    return [(KeyItem(scorers, name, entry), texts) for (name, entry), texts in tasks or ()]
