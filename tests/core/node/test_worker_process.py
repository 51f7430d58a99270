"""The trainer's end of a worker that falls silent: before it is ready, or in the middle of a
message. The child processes are real, and are none of ours.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swarm_node.generation.parallel import SamplingRequest
from swarm_node.node import worker
from swarm_node.node.generator import settings_for
from swarm_node.node.parallel import Workers
from swarm_node.node.stopping import Interrupted
from swarm_node.node.worker import START_SECONDS, Begin, Gone, WorkerProcess, Write
from swarm_node.policy.policy import Policy
from swarm_node.policy.weights import SharedGradients, SharedWeights
from swarm_node.settings import NodeConfig
from tests.models import tiny_policy

SILENT = "import time; time.sleep(600)"
# Four bytes say how long the message is, and one of its bytes follows
CUT_OFF = f"import os, sys; os.write(int(sys.argv[-1]), bytes([0, 0, 16, 0, 1])); {SILENT}"


def child(policy: Policy, weights: SharedWeights, code: str, folder: Path) -> WorkerProcess:
    gradients = SharedGradients.create(policy)
    memory = weights.descriptor, gradients.descriptor, list(weights.layout)
    begin = Begin(settings_for(NodeConfig(model={"device": "cpu"})), 1, 0, *memory, b"")
    return WorkerProcess(begin, 1, folder / "log", (sys.executable, "-c", code))


@contextmanager
def running(code: str, folder: Path) -> Iterator[WorkerProcess]:
    policy = tiny_policy()
    process = child(policy, SharedWeights.create(policy), code, folder)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def test_a_worker_that_stops_in_the_middle_of_a_message_counts_as_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "EXIT_SECONDS", 0.01)
    monkeypatch.setattr(worker, "STUCK_SECONDS", 1)
    with running(CUT_OFF, tmp_path) as process:
        with pytest.raises(Gone, match="stopped in the middle of a message"):
            process.take(60.0)
        assert process.pid is None


def test_a_worker_whose_order_was_cut_off_by_a_signal_gets_no_other_one(tmp_path: Path) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    # Far more than a socket holds, and nobody reads it
    order = Write(True, [[1] * 4_000_000], SamplingRequest(1, "s", False, True), 0)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with running(SILENT, tmp_path) as process:
            process.busy = False  # as if it had loaded its model
            with pytest.raises(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                process.order(order)
            assert process.busy
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_a_worker_that_never_loads_its_model_is_noticed_though_nobody_waits_for_it(
    tmp_path: Path,
) -> None:
    policy, told, now = tiny_policy(), list[str](), [1000.0]
    weights = SharedWeights.create(policy)
    process = child(policy, weights, SILENT, tmp_path)
    workers = Workers(policy, lambda: 0, weights, [process], told.append, lambda: now[0])
    try:
        workers.start()
        (member,) = workers._members
        member.awaited = False  # as after a death
        for _ in range(2):
            now[0] += START_SECONDS / 2 - 1
            assert workers._present() == [] and not told
        now[0] += 3.0
        assert workers._present() == []
        (line,) = told
        assert "it did not load its model within 600 seconds" in line
        assert len(workers.pids) == 1, "another one has taken its place"
    finally:
        workers.close()
