"""The light process: forked from the judge before that imports its library, it scores what needs none of it.

A fork costs by the memory a process has: here a fifth of what it costs in the judge, where the library takes 100 MB.
Like the judge it never looks at an answer itself; its children do.
"""

import gc
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, cast

from swarm_node.environment import children
from swarm_node.environment.confinement import allow_cpu, silence
from swarm_node.environment.frames import Reader, encode
from swarm_node.environment.judging import CHILD_ITEMS
from swarm_node.environment.sandbox import Sandbox
from swarm_node.environment.scorers import SCORERS, answer_of, reward

Task = tuple[tuple[str, Mapping[str, Any]], Sequence[str]]  # (name of a scorer, entry), answers


class LightItem:
    """A question reduced to its key."""

    prompt = ""

    def __init__(self, name: str, entry: Mapping[str, Any]) -> None:
        self._scorer, self._entry = SCORERS[name], entry

    def score(self, text: str) -> float:
        return reward(self._scorer, answer_of(text), self._entry)


class LightProcess:
    """The judge's end. Lives as long as the judge does."""

    def __init__(self, sandbox: Sandbox, time_limit: float, lifeline: int) -> None:
        """`lifeline`: the judge's, closed in the new process."""
        self._connection, theirs = socket.socketpair()
        if os.fork() == 0:
            try:
                self._connection.close()
                os.close(lifeline)
                sandbox.die_with_parent()
                silence()
                serve(theirs, sandbox, time_limit)
            finally:
                os._exit(0)
        theirs.close()
        self._reader = Reader(self._connection)

    def score(self, tasks: Sequence[Task]) -> list[children.Verdict]:
        """One verdict per task, all of one author. Raises OSError if the process is gone, which ends the judge."""
        if not tasks:
            return []
        self._connection.sendall(encode(tasks))
        verdicts = self._reader.read()
        if verdicts is None:
            raise OSError("the light process is gone")
        return cast(list[children.Verdict], verdicts)


def serve(connection: socket.socket, sandbox: Sandbox, time_limit: float) -> None:
    """Score until the judge closes its end."""
    gc.collect()
    gc.freeze()
    reader = Reader(connection)
    while (tasks := reader.read()) is not None:
        allow_cpu(CHILD_ITEMS)
        work = [(LightItem(name, entry), texts) for (name, entry), texts in tasks]
        connection.sendall(encode(children.score(work, sandbox, time_limit)))
