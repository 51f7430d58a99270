"""Scores the answers of one author in a child that lives for them only, so that no answer changes another's score.

The child inherits the questions and the texts by being forked, enters the sandbox, and writes eight bytes per answer.
The judge trusts it with nothing else: it keeps the clock, and takes only finite numbers in [0, 1].
"""

import contextlib
import math
import os
import select
import signal
import struct
import time
from collections.abc import Sequence
from typing import Any

from swarm_node.environment import judging
from swarm_node.environment.judging import Item
from swarm_node.environment.sandbox import Sandbox
from swarm_node.environment.seccomp import LAST_WRITABLE

SCORE = struct.Struct("<d")
RAISED = -1.0  # instead of the scores of an item whose scorer raised
NONE = math.nan  # instead of a score that is none

Work = tuple[Item, Sequence[str]]
Verdict = list[float] | str  # scores, or why there are none


def score(work: Sequence[Work], sandbox: Sandbox, time_limit: float) -> list[Verdict]:
    """One verdict per item, in order. `time_limit`: seconds of wall clock per item, after which it is given up."""
    verdicts: list[Verdict] = []
    while len(verdicts) < len(work):  # again in a new child for those behind one that killed its child
        verdicts += _score_in_child(work[len(verdicts) :], sandbox, time_limit)
    return verdicts


def is_score(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0.0 <= value <= 1.0


def _score_in_child(work: Sequence[Work], sandbox: Sandbox, time_limit: float) -> list[Verdict]:
    """Verdicts up to and including the item at which the child hung or died, if it did; at least one."""
    results, child_end = os.pipe()
    judge = os.getpid()
    try:
        pid = os.fork()
    except OSError:  # no process left on this machine
        os.close(results)
        os.close(child_end)
        return [judging.CRASHED] * len(work)
    if pid == 0:
        _be_the_child(work, child_end, sandbox, judge, time_limit)
    os.close(child_end)
    verdicts: list[Verdict] = []
    reason = None
    try:
        for _, texts in work:
            said = _read(results, SCORE.size * len(texts), time.monotonic() + time_limit)
            if isinstance(said, str):
                reason = said
                break
            verdicts.append(_verdict([value for (value,) in SCORE.iter_unpack(said)]))
    finally:
        os.close(results)
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    if reason is not None:
        out_of_time = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
        verdicts.append(judging.TIMEOUT if out_of_time else reason)
    return verdicts


def _read(descriptor: int, wanted: int, deadline: float) -> bytes | str:
    """Exactly so many bytes, or why not."""
    said = b""
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    while len(said) < wanted:
        if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return judging.TIMEOUT
        chunk = os.read(descriptor, wanted - len(said))
        if not chunk:
            return judging.CRASHED
        said += chunk
    return said


def _verdict(values: list[float]) -> Verdict:
    if RAISED in values:
        return judging.SCORER_RAISED
    return values if all(map(is_score, values)) else judging.NOT_A_SCORE


def _be_the_child(work: Sequence[Work], results: int, sandbox: Sandbox, judge: int, time_limit: float) -> None:
    """Never returns. Whatever goes wrong before the sandbox holds leaves without a score."""
    with contextlib.suppress(BaseException):
        os.dup2(results, LAST_WRITABLE)
        sandbox.enter(judge, int(time_limit * len(work)) + 1)
        for item, texts in work:
            os.write(LAST_WRITABLE, b"".join(map(SCORE.pack, _scores(item, texts))))
    os._exit(0)


def _scores(item: Item, texts: Sequence[str]) -> list[float]:
    """Whatever the scorer raises: it may even be SystemExit."""
    try:
        scores = [item.score(text) for text in texts]
        return [float(value) if is_score(value) else NONE for value in scores]
    except BaseException:  # noqa: BLE001
        return [RAISED] * len(texts)
