"""Processes that score a few groups of answers and then end, so that no answer changes what is scored later.

A child enters the sandbox before it knows the first text, and writes eight bytes per answer. Whoever started it trusts
it with nothing else: the clock is kept outside, and only finite numbers in [0, 1] are taken. A group at which a child
hangs or dies is skipped, and those behind it are scored in another. Whose groups share one is for `server.cohort`.

Children are forked from the scoring process, or from the fork server. That is forked from the scoring process before it
imports its library, and scores with the module of scorers that the environment named, which needs no library. A fork
costs by the memory a process has: here a fifth of what it costs where the library takes 100 MB. Like the scoring
process the fork server never looks at an answer itself; its children do.
"""

import contextlib
import gc
import math
import os
import select
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from swarm_node.scoring import contract
from swarm_node.scoring.confinement import allow_cpu, silence
from swarm_node.scoring.contract import CHILD_ITEMS, Item, Reader, Scorers, encode
from swarm_node.scoring.sandbox import Sandbox
from swarm_node.scoring.seccomp import LAST_WRITABLE

SCORE = struct.Struct("<d")
RAISED = -1.0  # instead of the scores of an item whose scorer raised
NONE = math.nan  # instead of a score that is none
SPARES = 4  # children that the fork server keeps ready, for the calls of about a round

_ended: list[int] = []  # process ids of children that were killed

Work = tuple[Item, Sequence[str]]
Verdict = list[float] | str  # scores, or why there are none
Task = tuple[tuple[str, Mapping[str, Any]], Sequence[str]]  # (name of a scorer, entry), answers


def score(work: Sequence[Work], sandbox: Sandbox, time_limit: float) -> list[Verdict]:
    """One verdict per item of one cohort, in order, from children that inherit the work. `time_limit`: seconds of wall
    clock per item, after which it is given up."""
    verdicts: list[Verdict] = []
    while len(verdicts) < len(work):  # again in a new child for those behind one that killed its child
        rest = work[len(verdicts) :]
        try:
            child = Child(sandbox, time_limit, lambda: rest)  # noqa: B023  (called at once, in the fork)
        except OSError:  # no process left on this machine
            return verdicts + [contract.CRASHED] * len(rest)
        verdicts += child.verdicts([len(texts) for _, texts in rest])
    return verdicts


class Child:
    """One child, from the fork to its end."""

    def __init__(self, sandbox: Sandbox, time_limit: float, work: Callable[[], Sequence[Work]]) -> None:
        """`work` is called in the child, inside the sandbox. Raises OSError where no process can be had."""
        reap()
        self._time_limit = time_limit
        self._connection, theirs = socket.socketpair()
        parent = os.getpid()
        try:
            self._pid = os.fork()
        except OSError:
            self._connection.close()
            theirs.close()
            raise
        if self._pid == 0:
            _be_the_child(theirs.fileno(), sandbox, parent, int(time_limit * CHILD_ITEMS) + 1, work)
        theirs.close()

    def send(self, data: bytes) -> None:
        """For `work` to read. A child that is gone shows when it has no verdicts."""
        with contextlib.suppress(OSError):
            self._connection.settimeout(self._time_limit)
            self._connection.sendall(data)

    def verdicts(self, sizes: Sequence[int]) -> list[Verdict]:
        """Of items with so many answers, up to and including the one at which the child hung or died, if it did; at
        least one. It is ended."""
        verdicts: list[Verdict] = []
        for size in sizes:
            said = self._read(SCORE.size * size)
            if isinstance(said, str):
                return [*verdicts, self._end() or said]
            verdicts.append(verdict([value for (value,) in SCORE.iter_unpack(said)]))
        self._connection.close()
        os.kill(self._pid, signal.SIGKILL)
        _ended.append(self._pid)  # taken in later: somebody waits for the verdicts
        return verdicts

    def _read(self, wanted: int) -> bytes | str:
        """Exactly so many bytes, or why not."""
        said, deadline = b"", time.monotonic() + self._time_limit
        while len(said) < wanted:
            try:
                self._connection.settimeout(max(1e-6, deadline - time.monotonic()))
                chunk = self._connection.recv(wanted - len(said))
            except TimeoutError:
                return contract.TIMEOUT
            except OSError:
                return contract.CRASHED
            if not chunk:
                return contract.CRASHED
            said += chunk
        return said

    def _end(self) -> str | None:
        """A better reason for its death than the one at hand, if there is one."""
        self._connection.close()
        os.kill(self._pid, signal.SIGKILL)
        status = os.waitpid(self._pid, 0)[1]
        return contract.TIMEOUT if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else None


def reap() -> None:
    """Take in children that were ended."""
    _ended[:] = [pid for pid in _ended if not os.waitpid(pid, os.WNOHANG)[0]]


def is_score(value: Any) -> bool:
    """Whether it is a number in [0, 1]."""
    return isinstance(value, int | float) and math.isfinite(value) and 0.0 <= value <= 1.0


def verdict(values: list[float]) -> Verdict:
    """What eight bytes per answer say."""
    if RAISED in values:
        return contract.SCORER_RAISED
    return values if all(map(is_score, values)) else contract.NOT_A_SCORE


def _be_the_child(
    connection: int, sandbox: Sandbox, parent: int, cpu_seconds: int, work: Callable[[], Sequence[Work]]
) -> None:
    """Never returns. Whatever goes wrong before the sandbox holds leaves without a score."""
    with contextlib.suppress(BaseException):
        os.dup2(connection, LAST_WRITABLE)
        sandbox.enter(parent, cpu_seconds)
        for item, texts in work():
            os.write(LAST_WRITABLE, b"".join(map(SCORE.pack, _scores(item, texts))))
    os._exit(0)


def _scores(item: Item, texts: Sequence[str]) -> list[float]:
    """Whatever the scorer raises: it may even be SystemExit."""
    try:
        scores = [_score(item, text) for text in texts]
        return [float(value) if is_score(value) else NONE for value in scores]
    except BaseException:  # noqa: BLE001
        return [RAISED] * len(texts)


def _score(item: Item, text: str) -> float:
    """A scorer of somebody's own may try what the sandbox forbids, or need more than there is: a wrong answer."""
    try:
        return item.score(text)
    except (ImportError, OSError, RecursionError, MemoryError):
        return 0.0


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

    def score(self, tasks: Sequence[Task]) -> list[Verdict]:
        """One verdict per task, all of one cohort. Raises OSError if the process is gone, which ends the scoring."""
        if not tasks:
            return []
        self._connection.sendall(encode(tasks))
        verdicts = self._reader.read()
        if verdicts is None:
            raise OSError("the fork server is gone")
        return cast(list[Verdict], verdicts)


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
        verdicts: list[Verdict] = []
        while len(verdicts) < len(tasks):
            rest = tasks[len(verdicts) :]
            child = spares.popleft() if spares else Child(sandbox, time_limit, read_work)
            child.send(encode(rest))
            verdicts += child.verdicts([len(texts) for _, texts in rest])
        connection.sendall(encode(verdicts))


def _read_work(scorers: Scorers) -> list[Work]:
    """In a child, which has nothing but this descriptor."""
    tasks = Reader(partial(os.read, LAST_WRITABLE)).read()
    return [(KeyItem(scorers, name, entry), texts) for (name, entry), texts in tasks or ()]
