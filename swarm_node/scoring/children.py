"""Processes that score a few groups of answers and then end, so that no answer changes what is
scored later.

Theory of operation
===================

The life of a child, and what its parent does meanwhile:

    parent                                    child
    fork ------------------------------------>  no file, socket or other process from here on:
      |                                         it enters the sandbox
      |  (fork server: the work is sent)        only now it looks at a text
      |                                         for each item, in order: scores its texts or
    reads, until the item's deadline <--bytes--   plays its episodes, and writes what came out
      |                                         ends
    kill

A child may have been taken over by the text before, so its parent believes nothing but the length
and the form of what it writes: eight bytes for each text, a number in [0, 1]; or how an episode
went, read strictly (`playing.py`). The parent keeps the clock, and does not count the time in which
the machine slept: an author is charged for a child that hangs. When the child hangs, dies or writes
anything else, the item at which that happened is skipped, the items before keep their verdicts, and
a new child takes the items after. `server.cohort` says which groups may share a child at all.

Children are forked from the scoring process, or from the fork server. The scoring process forks the
fork server before it imports its library. The fork server scores with the environment's module of
scorers, which needs no library. A fork costs by the memory that a process has: from the fork server
a fifth of what it costs where the library takes 100 MB. Like the scoring process, the fork server
never looks at an answer itself; its children do.
"""

import contextlib
import gc
import math
import os
import select
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeGuard, cast

from swarm_node.common.awake import Patience
from swarm_node.scoring import contract, playing
from swarm_node.scoring.confinement import allow_cpu, silence
from swarm_node.scoring.contract import (
    CHILD_ITEMS,
    Item,
    Playable,
    Reader,
    Scorers,
    Turn,
    encode,
    is_score,
)
from swarm_node.scoring.sandbox import LAST_WRITABLE, Sandbox

SCORE = struct.Struct("<d")
RAISED = -1.0  # instead of the scores of an item whose scorer raised
NONE = math.nan  # instead of a value that is not a score
SPARES = 4  # children that the fork server keeps ready, for the calls of about a round

_ended: list[int] = []  # process ids of children that were killed

# Texts to score, or episodes to play
Work = tuple[Item | Playable, Sequence[str] | Sequence[Sequence[Turn]]]
Verdict = list[float] | playing.Played  # scores, or what was played, or why there are none
Task = tuple[tuple[str, Mapping[str, Any]], Sequence[str]]  # (name of a scorer, entry), answers


def score(work: Sequence[Work], sandbox: Sandbox, time_limit: float) -> list[Verdict]:
    """One verdict per item of one cohort, in order, from children that inherit the work.
    `time_limit`: seconds of wall clock per item, after which it is given up.
    """
    verdicts: list[Verdict] = []
    while len(verdicts) < len(work):  # a new child for the items after one that killed its child
        rest = work[len(verdicts) :]
        try:
            child = Child(sandbox, time_limit, lambda: rest)  # noqa: B023  (called at once, in the fork)
        except OSError:  # no process left on this machine
            return verdicts + [contract.CRASHED] * len(rest)
        verdicts += child.verdicts([asked for _, asked in rest])
    return verdicts


class _Gone(Exception):
    """A child hung, died or wrote what no child of ours writes; the text is the reason of the
    skip.
    """


class Child:
    """One child, from the fork to its end."""

    def __init__(
        self, sandbox: Sandbox, time_limit: float, work: Callable[[], Sequence[Work]]
    ) -> None:
        """`work` is called in the child, inside the sandbox. Raises OSError where no process can be
        had.
        """
        reap()
        self._time_limit = time_limit
        self._connection, theirs = socket.socketpair()
        self._waiting = Patience(self._connection)
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
        """Sends what `work` reads. If the child is gone, `verdicts` notices that."""
        with contextlib.suppress(OSError):
            self._waiting.begin(self._time_limit)
            self._waiting.sendall(data)

    def verdicts(self, asked: Sequence[Sequence[str] | Sequence[Sequence[Turn]]]) -> list[Verdict]:
        """The verdicts on items with these answers or episodes, up to and including the item at
        which the child hung or died, if it did; at least one. Ends the child.
        """
        verdicts: list[Verdict] = []
        for completions in asked:
            self._waiting.begin(self._time_limit)
            try:
                if episodes(completions):
                    verdicts.append(self._verdict_on_episodes(completions))
                else:
                    verdicts.append(self._verdict_on_answers(len(completions)))
            except _Gone as gone:
                return [*verdicts, self._end() or str(gone)]
        self._connection.close()
        os.kill(self._pid, signal.SIGKILL)
        _ended.append(self._pid)  # reaped later: a caller waits for the verdicts
        return verdicts

    def _verdict_on_answers(self, number: int) -> Verdict:
        written = self._read(SCORE.size * number)
        return verdict([value for (value,) in SCORE.iter_unpack(written)])

    def _verdict_on_episodes(self, asked: Sequence[Sequence[Turn]]) -> Verdict:
        (length,) = playing.LENGTH.unpack(self._read(playing.LENGTH.size))
        try:
            return playing.read(self._read(min(length, playing.most_bytes(asked))), asked)
        except ValueError as error:
            raise _Gone(contract.CRASHED) from error

    def _read(self, wanted: int) -> bytes:
        """Exactly `wanted` bytes, while the time of the item lasts. Raises _Gone."""
        said = b""
        while len(said) < wanted:
            try:
                chunk = self._waiting.recv(wanted - len(said))
            except TimeoutError as error:
                raise _Gone(contract.TIMEOUT) from error
            except OSError as error:
                raise _Gone(contract.CRASHED) from error
            if not chunk:
                raise _Gone(contract.CRASHED)
            said += chunk
        return said

    def _end(self) -> str | None:
        """Ends the child. TIMEOUT if its CPU limit had ended it before; else None."""
        self._connection.close()
        os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        at_cpu_limit = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
        return contract.TIMEOUT if at_cpu_limit else None


def reap() -> None:
    """Collects the exit status of children that were killed."""
    _ended[:] = [pid for pid in _ended if not _has_exited(pid)]


def _has_exited(pid: int) -> bool:
    collected, _ = os.waitpid(pid, os.WNOHANG)
    return collected != 0


def episodes(
    asked: Sequence[str] | Sequence[Sequence[Turn]],
) -> TypeGuard[Sequence[Sequence[Turn]]]:
    """Whether these are episodes to be played, and not texts to be scored."""
    return not isinstance(asked[0], str)


def verdict(values: list[float]) -> list[float] | str:
    """The scores that a child wrote, or why there are none."""
    if RAISED in values:
        return contract.SCORER_RAISED
    return values if all(map(is_score, values)) else contract.NOT_A_SCORE


def _be_the_child(
    connection: int,
    sandbox: Sandbox,
    parent: int,
    cpu_seconds: int,
    work: Callable[[], Sequence[Work]],
) -> None:
    """All that a child does; never returns. A child that fails before the sandbox holds ends
    without a score.
    """
    with contextlib.suppress(BaseException):
        os.dup2(connection, LAST_WRITABLE)
        sandbox.enter(parent, cpu_seconds)
        for item, asked in work():
            _write(_said(item, asked))
    os._exit(0)


def _said(item: Item | Playable, asked: Sequence[str] | Sequence[Sequence[Turn]]) -> bytes:
    if not episodes(asked):
        scores = _scores(cast(Item, item), cast(Sequence[str], asked))
        return b"".join(map(SCORE.pack, scores))
    played = playing.play(cast(Playable, item), asked)
    return playing.LENGTH.pack(len(played)) + played


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(LAST_WRITABLE, data) :]


def _float(value: Any) -> float:
    return float(value) if is_score(value) else NONE


def _scores(item: Item, texts: Sequence[str]) -> list[float]:
    """The scores, or RAISED for each text where the scorer raises anything, even SystemExit."""
    try:
        return list(map(_float, [_score(item, text) for text in texts]))
    except BaseException:  # noqa: BLE001
        return [RAISED] * len(texts)


def _score(item: Item, text: str) -> float:
    """The score. An answer is wrong if its scorer tries what the sandbox forbids, or lacks memory
    or stack.
    """
    try:
        return item.score(text)
    except (ImportError, OSError, RecursionError, MemoryError):
        return 0.0


class KeyItem:
    """A question reduced to its key: the name of a scorer, and what that scorer needs to know."""

    prompt = ""

    def __init__(self, scorers: Scorers, name: str, entry: Mapping[str, Any]) -> None:
        self._scorers, self._name, self._entry = scorers, name, entry

    def score(self, text: str) -> float:
        return self._scorers.score_with(self._name, self._entry, text)


class ForkServer:
    """The scoring process's end of the fork server, which lives as long as the scoring process."""

    def __init__(
        self, scorers: Scorers, sandbox: Sandbox, time_limit: float, lifeline: int
    ) -> None:
        """`lifeline`: the scoring process's descriptor, which the fork server closes."""
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
        """One verdict per task, all of one cohort. Raises OSError if the fork server has ended:
        then the scoring ends.
        """
        if not tasks:
            return []
        self._connection.sendall(encode(tasks))
        if (verdicts := self._reader.read()) is None:
            raise OSError("the fork server has ended")
        return cast(list[Verdict], verdicts)


def serve(connection: socket.socket, scorers: Scorers, sandbox: Sandbox, time_limit: float) -> None:
    """Scores until the scoring process closes its end. While there is nothing to do, the fork
    server makes children ready for the next tasks.
    """
    gc.collect()
    gc.freeze()
    reader, spares = Reader(connection.recv), deque[Child]()
    read_work = partial(_read_work, scorers)
    while True:
        # Then several at once: each page that this process writes between two forks is copied
        if not spares:
            while len(spares) < SPARES and not _has_tasks(connection):
                spares.append(Child(sandbox, time_limit, read_work))
        if (tasks := reader.read()) is None:
            return
        allow_cpu(CHILD_ITEMS)
        verdicts: list[Verdict] = []
        while len(verdicts) < len(tasks):
            rest = tasks[len(verdicts) :]
            child = spares.popleft() if spares else Child(sandbox, time_limit, read_work)
            child.send(encode(rest))
            verdicts += child.verdicts([texts for _, texts in rest])
        connection.sendall(encode(verdicts))


def _has_tasks(connection: socket.socket) -> bool:
    """Whether the scoring process has sent something that is not read yet."""
    readable, _, _ = select.select([connection], [], [], 0)
    return bool(readable)


def _read_work(scorers: Scorers) -> list[Work]:
    """The work that the fork server sends, read in a child, which has no other way to its
    parent.
    """
    tasks = Reader(partial(os.read, LAST_WRITABLE)).read()
    return [(KeyItem(scorers, *key), texts) for key, texts in tasks or ()]
